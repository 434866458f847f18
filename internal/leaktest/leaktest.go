// Package leaktest looks for goroutines that tests leave behind, where some of them end late by design.
package leaktest

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// late is how long goroutines may take to end. spdystream waits a second for somebody to take the error of closing a
// connection that the other side has closed already, which is longer than goleak is patient.
const late = 5 * time.Second

// VerifyTestMain runs a package's tests and fails when they leave goroutines behind.
func VerifyTestMain(m *testing.M) {
	goleak.VerifyTestMain(patient{m})
}

type patient struct{ goleak.TestingM }

func (p patient) Run() int {
	code := p.TestingM.Run()
	for end := time.Now().Add(late); goleak.Find() != nil && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
	}
	return code
}
