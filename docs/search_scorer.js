/* The order of search results: pages for users come before pages about the project. */
var Scorer = {
  score: ([page, , , , score]) => {
    if (/^(architecture|changelog|code_of_conduct|contributing|how_it_is_tested|security)/.test(page)) {
      return score - 4;
    }
    if (/^(from_|speed|sources|why)/.test(page)) {
      return score - 2;
    }
    return /^(how_to\/|reference\/|tutorial)/.test(page) ? score + 1 : score;
  },

  // The rest as Sphinx has it.
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
