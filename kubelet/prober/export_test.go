package prober

// NewRequest is for the comparison with upstream's requests.
var NewRequest = newRequest
