package cnitest_test

import (
	"context"
	"testing"

	"github.com/keelson-dev/keelson/cni/cnitest"
	"github.com/keelson-dev/keelson/cni/simulated"
)

// How the test of a network, here the simulated one, holds it to the contract.
func ExampleRun() {
	contract := func(t *testing.T) {
		cnitest.Run(t, func(*testing.T) cnitest.Subject {
			network := simulated.New(simulated.Options{})
			return cnitest.Subject{
				Network:   network,
				Namespace: func(testing.TB) string { return "/run/netns/pod" },
				Unmake:    func(testing.TB, string) {},
				Leased: func(testing.TB) int {
					all, _ := network.Attachments(context.Background())
					return len(all)
				},
			}
		})
	}
	_ = contract
}
