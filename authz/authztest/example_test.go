package authztest_test

import (
	"testing"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/authztest"
	"github.com/keelson-dev/keelson/authz/superuser"
)

// How a test holds an authorizer to the contract; t is the test's.
func ExampleRun() {
	conformance := func(t *testing.T) {
		master := &authn.Identity{Name: "root", Groups: []string{authn.GroupMasters}}
		authztest.Run(t, superuser.New(), []authztest.Case{
			{Name: "master", Attributes: authz.Attributes{User: master, Verb: "get", Path: "/"}, Want: authz.Allow},
			{Name: "nobody", Fails: true},
		})
	}
	_ = conformance
}
