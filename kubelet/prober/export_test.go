package prober

// For tests: requests for the comparison with upstream's, and what connections are made with.
var (
	NewRequest     = newRequest
	NewDialer      = newDialer
	ProbeTransport = probeTransport
)
