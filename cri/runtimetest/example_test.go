package runtimetest_test

import (
	"testing"

	"github.com/keelson-dev/keelson/cri/runtimetest"
	"github.com/keelson-dev/keelson/cri/simulated"
)

// How the test of a runtime, here the simulated one, holds it to the contract; t is the test's.
func ExampleRun() {
	contract := func(t *testing.T) {
		runtimetest.Run(t, func(t *testing.T) runtimetest.Runtime {
			r := simulated.New(simulated.Options{Program: func(p simulated.Process) simulated.Program {
				switch p.Image {
				case "stubborn":
					return simulated.Program{IgnoresStop: true}
				case "failure":
					return simulated.Program{Exits: true, ExitCode: 3}
				case "success":
					return simulated.Program{Exits: true}
				}
				return simulated.Program{}
			}})
			t.Cleanup(r.Close)
			return r
		}, runtimetest.Options{
			Sleeper:  runtimetest.Program{Image: "sleeper"},
			Stubborn: runtimetest.Program{Image: "stubborn"},
			Failure:  runtimetest.Program{Image: "failure"},
			Success:  runtimetest.Program{Image: "success"},
		})
	}
	_ = contract
}
