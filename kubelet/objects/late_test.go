package objects_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/kubelet/objects"
)

// A late watch reports what earlier readers did not see.
func TestLateWatch(t *testing.T) {
	tests := map[string]struct {
		before func(t *testing.T, s *server, c *objects.Cache)
		then   func(s *server)
		told   []types.UID
	}{
		"never read":                  {func(*testing.T, *server, *objects.Cache) {}, func(*server) {}, nil},
		"unchanged since it was read": {func(t *testing.T, _ *server, c *objects.Cache) { value(t, c, "a") }, func(*server) {}, nil},
		"changed since":               {func(t *testing.T, _ *server, c *objects.Cache) { value(t, c, "a") }, func(s *server) { s.configMaps.Put(config("a", "2")) }, []types.UID{"p1"}},
		"deleted since":               {func(t *testing.T, _ *server, c *objects.Cache) { value(t, c, "a") }, func(s *server) { s.configMaps.Delete("ns", "a") }, []types.UID{"p1"}},
		"missing when read":           {func(t *testing.T, s *server, c *objects.Cache) { s.configMaps.Delete("ns", "a"); value(t, c, "a") }, func(s *server) { s.configMaps.Put(config("a", "2")) }, []types.UID{"p1"}},
		"was refused, then read": {func(t *testing.T, s *server, c *objects.Cache) {
			s.fail(apierrors.NewForbidden(corev1.Resource("configmaps"), "a", nil))
			value(t, c, "a")
			s.fail(nil)
			value(t, c, "b")
		}, func(*server) {}, []types.UID{"p1"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.configMaps.Put(config("a", "1"))
				var mu sync.Mutex
				refused := errors.New("not yet")
				watches := s.watches()
				c := objects.New(s, objects.Watches{ConfigMap: func(ns, name string) (informer.Source[*corev1.ConfigMap], error) {
					mu.Lock()
					defer mu.Unlock()
					if refused != nil {
						return nil, refused
					}
					return watches.ConfigMap(ns, name)
				}}, objects.Options{Changed: s.tell})
				stop := start(t, c)
				c.Register(filePod("p1", "a"))
				synctest.Wait()
				tt.before(t, s, c)
				tt.then(s)
				if got := value(t, c, "other"); got != `configmap "other" not found` {
					t.Error(got)
				}
				mu.Lock()
				refused = nil
				mu.Unlock()
				time.Sleep(time.Minute)
				if told := s.told(); !slices.Equal(told, tt.told) {
					t.Errorf("told of %v, not %v", told, tt.told)
				}
				stop()
			})
		})
	}
}

// Objects that are not watched yet are read each time.
func TestReadUntilWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		c := objects.New(s, objects.Watches{ConfigMap: func(string, string) (informer.Source[*corev1.ConfigMap], error) {
			return nil, errors.New("not yet")
		}}, objects.Options{})
		stop := start(t, c)
		c.Register(filePod("p1", "a"))
		for _, v := range []string{"1", "2"} {
			s.configMaps.Put(config("a", v))
			if got := value(t, c, "a"); got != v {
				t.Errorf("%s, not %s", got, v)
			}
		}
		stop()
	})
}
