"""What leaves: releases, models, and the answers, intervals and rows that they give."""
