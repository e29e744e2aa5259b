/* The order of search results: guides and how-to pages, reference, other libraries, the project. */
var Scorer = {
  score: ([page, , , , score]) => {
    if (/^(architecture|changelog|code_of_conduct|contributing|fault_matrix|how_it_is_tested|project|security|sources|speed)/.test(page)) {
      return score - 30;
    }
    if (/^(coming_from|from_|why)/.test(page)) {
      return score - 20;
    }
    return /^(reference|thread_safety)/.test(page) ? score : score + 10;
  },

  // The full name of an object comes before texts that mention it, and after what a page answers.
  objNameMatch: 20,
  objPartialMatch: 3,
  objPrio: { 0: 5, 1: 2, 2: -5 },
  objPrioDefault: 0,

  // The rest as Sphinx has it.
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
