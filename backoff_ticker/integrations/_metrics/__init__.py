"""What all observers share."""
