package apiservice_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/apiservice"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
)

// refresh is a Refresher.
type refresh func(name string) error

func (r refresh) Refresh(_ context.Context, name string) error { return r(name) }

// TestDiscovery: every APIService is read again at once, those of other servers also each minute.
func TestDiscovery(t *testing.T) {
	inBubble(t, func(w *world) {
		own := remote("own.example.com")
		own.Spec.Service = nil
		w.add(remote("example.com"), own)
		w.run()
		var read string
		c := apiservice.NewDiscovery(w.in.APIServices, refresh(func(name string) error {
			read = name
			if name == "v1.down.example.com" {
				return trial.ErrDown
			}
			return nil
		}))
		for name, test := range map[string]struct {
			again time.Duration
			err   error
		}{
			"v1.example.com":         {again: time.Minute},
			"v1.own.example.com":     {},
			"v1.missing.example.com": {},
			"v1.down.example.com":    {err: trial.ErrDown},
		} {
			if again, err := w.reconcile(c, name); again != test.again || !errors.Is(err, test.err) || read != name {
				t.Errorf("%s: again after %v, %v; read %s", name, again, err, read)
			}
		}
	})
}

// TestDiscoveryWatches: an APIService is read when it comes, changes or goes.
func TestDiscoveryWatches(t *testing.T) {
	inBubble(t, func(w *world) {
		c := apiservice.NewDiscovery(w.in.APIServices, refresh(func(string) error { return nil }))
		if c.Name() != "discovery-manager" || c.Retry() != (controllers.Retry{First: 500 * time.Millisecond, Max: time.Minute}) {
			t.Errorf("%s, %+v", c.Name(), c.Retry())
		}
		w.watched(c)
	})
}
