"""What is asked, when, and with which words: phases, arrivals, lengths, prompts."""
