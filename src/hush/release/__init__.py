"""Release and Answers: estimates, intervals, queries, save and load."""
