package etcdtest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/keelson-dev/keelson/internal/etcdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStart(t *testing.T) {
	for name, options := range map[string]etcdtest.Options{
		"plain":          {},
		"proxied":        {Proxies: true},
		"authentication": {Password: "secret"},
		"TLS":            {TLS: true},
		"three":          {Members: 3},
		"everything":     {Members: 3, TLS: true, Password: "secret"},
	} {
		t.Run(name, func(t *testing.T) {
			c := etcdtest.Start(t, options)
			client := c.Client(t)
			if _, err := client.Put(t.Context(), "a", "1"); err != nil {
				t.Fatal(err)
			}
			leader := c.Leader(t)
			c.Kill(t, leader)
			c.Restart(t, leader)
			got, err := client.Get(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "1" {
				t.Errorf("a = %v", got.Kvs)
			}
		})
	}
}
