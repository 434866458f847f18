package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/internal/evidence"
)

// calls are the requests of one resource. n is the number of an object in its namespace.
type calls struct {
	create, get, patch, update, apply func(ctx context.Context, n int) error
	list                              func(ctx context.Context) error
}

// resource is what single requests are measured for.
type resource struct {
	name  string
	verbs []string
	// calls returns its requests in a namespace.
	calls func(s *side, namespace string) (calls, error)
}

// requestsOf measures single requests for pods, ConfigMaps and custom objects: the time until the client has the answer,
// and the server's CPU.
func (m *measurement) requestsOf(ctx context.Context) error {
	builtIn := func(name string) resource {
		return resource{name, []string{"create", "get", "list", "patch", "update"}, func(s *side, namespace string) (calls, error) {
			return callsOf(s.api, name, namespace), nil
		}}
	}
	for _, r := range []resource{
		builtIn("pods"), builtIn("configmaps"), {"custom", []string{"create", "get", "list", "patch", "update", "apply"}, customCalls},
	} {
		if err := m.requestsFor(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (m *measurement) requestsFor(ctx context.Context, r resource) error {
	took := map[string]*[2][]float64{}
	cpu := map[string]*[2]time.Duration{}
	for _, verb := range r.verbs {
		took[verb], cpu[verb] = &[2][]float64{}, &[2]time.Duration{}
	}
	err := m.inTurn(m.rounds, func(round, i int, s *side) error {
		namespace := r.name + "-" + strconv.Itoa(round)
		if err := s.namespace(ctx, namespace); err != nil {
			return err
		}
		c, err := r.calls(s, namespace)
		if err != nil {
			return err
		}
		for _, verb := range r.verbs {
			used, err := s.spent(ctx, func() error {
				for n := range m.requests {
					began := time.Now()
					if err := c.do(ctx, verb, n); err != nil {
						return fmt.Errorf("%s %s: %w", verb, r.name, err)
					}
					took[verb][i] = append(took[verb][i], milliseconds(time.Since(began)))
				}
				return nil
			})
			if err != nil {
				return err
			}
			cpu[verb][i] += used
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, verb := range r.verbs {
		objects := r.name
		if objects == "custom" {
			objects = "custom objects of 2 kB"
		}
		what := verb + " of " + objects
		if verb == "list" {
			what = fmt.Sprintf("list of %d %s", m.requests, objects)
		}
		all := m.rounds * m.requests
		m.row(evidence.Peer{Name: verb + "-" + r.name, What: what + ", until the answer", Unit: "ms", Of: "median", Runs: all},
			[2]float64{median(took[verb][0]), median(took[verb][1])})
		m.row(evidence.Peer{Name: verb + "-" + r.name + "-cpu", What: what + ", CPU of the servers", Unit: "ms", Of: "mean", Runs: all},
			[2]float64{milliseconds(cpu[verb][0]) / float64(all), milliseconds(cpu[verb][1]) / float64(all)})
	}
	return nil
}

func (c calls) do(ctx context.Context, verb string, n int) error {
	switch verb {
	case "create":
		return c.create(ctx, n)
	case "get":
		return c.get(ctx, n)
	case "patch":
		return c.patch(ctx, n)
	case "update":
		return c.update(ctx, n)
	case "apply":
		return c.apply(ctx, n)
	}
	return c.list(ctx)
}

// namespace creates a namespace in which pods can be created.
func (s *side) namespace(ctx context.Context, name string) error {
	if _, err := s.api.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	return soon(ctx, "the account of "+name, func(ctx context.Context) error {
		_, err := s.api.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// patchOf changes a label.
func patchOf(n int) []byte { return fmt.Appendf(nil, `{"metadata":{"labels":{"round":"p%d"}}}`, n) }

func callsOf(api kubernetes.Interface, resource, namespace string) calls {
	name := func(n int) string { return fmt.Sprintf("%s-%05d", resource, n) }
	if resource == "pods" {
		pods := api.CoreV1().Pods(namespace)
		known := map[int]*corev1.Pod{}
		keep := func(n int, p *corev1.Pod, err error) error { known[n] = p; return err }
		return calls{
			create: func(ctx context.Context, n int) error {
				p, err := pods.Create(ctx, pod(namespace, name(n)), metav1.CreateOptions{})
				return keep(n, p, err)
			},
			get: func(ctx context.Context, n int) error {
				_, err := pods.Get(ctx, name(n), metav1.GetOptions{})
				return err
			},
			list: func(ctx context.Context) error { _, err := pods.List(ctx, metav1.ListOptions{}); return err },
			patch: func(ctx context.Context, n int) error {
				p, err := pods.Patch(ctx, name(n), types.StrategicMergePatchType, patchOf(n), metav1.PatchOptions{})
				return keep(n, p, err)
			},
			update: func(ctx context.Context, n int) error {
				known[n].Labels["round"] = "u" + strconv.Itoa(n)
				p, err := pods.Update(ctx, known[n], metav1.UpdateOptions{})
				return keep(n, p, err)
			},
		}
	}
	maps := api.CoreV1().ConfigMaps(namespace)
	known := map[int]*corev1.ConfigMap{}
	keep := func(n int, c *corev1.ConfigMap, err error) error { known[n] = c; return err }
	return calls{
		create: func(ctx context.Context, n int) error {
			c, err := maps.Create(ctx, configMap(name(n)), metav1.CreateOptions{})
			return keep(n, c, err)
		},
		get: func(ctx context.Context, n int) error {
			_, err := maps.Get(ctx, name(n), metav1.GetOptions{})
			return err
		},
		list: func(ctx context.Context) error { _, err := maps.List(ctx, metav1.ListOptions{}); return err },
		patch: func(ctx context.Context, n int) error {
			c, err := maps.Patch(ctx, name(n), types.StrategicMergePatchType, patchOf(n), metav1.PatchOptions{})
			return keep(n, c, err)
		},
		update: func(ctx context.Context, n int) error {
			known[n].Data["round"] = "u" + strconv.Itoa(n)
			c, err := maps.Update(ctx, known[n], metav1.UpdateOptions{})
			return keep(n, c, err)
		},
	}
}

// configMap returns one of about a kilobyte.
func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "nginx"}},
		Data:       map[string]string{"settings": strings.Repeat("key = a value of some length\n", 32), "round": "0"},
	}
}
