package nftables_test

import (
	"testing"

	"github.com/keelson-dev/keelson/networkpolicy/policytest"
)

func TestSuite(t *testing.T) {
	n := newNetwork(t, bridged)
	policytest.Run(t, func(t *testing.T) policytest.Subject {
		return policytest.Subject{Writer: n.writer(t), Pass: n.pass, Pods: n.pods()}
	})
}
