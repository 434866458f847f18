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
	create, get, patch, update func(ctx context.Context, n int) error
	list                       func(ctx context.Context) error
}

// requestsOf measures single requests for pods and ConfigMaps: the time until the client has the answer, and the
// server's CPU.
func (m *measurement) requestsOf(ctx context.Context) error {
	for _, resource := range []string{"pods", "configmaps"} {
		verbs := []string{"create", "get", "list", "patch", "update"}
		took := map[string]*[2][]float64{}
		cpu := map[string]*[2]time.Duration{}
		for _, verb := range verbs {
			took[verb], cpu[verb] = &[2][]float64{}, &[2]time.Duration{}
		}
		err := m.inTurn(m.rounds, func(round, i int, s *side) error {
			namespace := resource + "-" + strconv.Itoa(round)
			if err := s.namespace(ctx, namespace); err != nil {
				return err
			}
			c := callsOf(s.api, resource, namespace)
			for _, verb := range verbs {
				used, err := s.spent(ctx, func() error {
					for n := range m.requests {
						began := time.Now()
						if err := c.do(ctx, verb, n); err != nil {
							return fmt.Errorf("%s %s: %w", verb, resource, err)
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
		for _, verb := range verbs {
			what := verb + " of " + resource
			if verb == "list" {
				what = fmt.Sprintf("list of %d %s", m.requests, resource)
			}
			all := m.rounds * m.requests
			m.row(evidence.Peer{Name: verb + "-" + resource, What: what + ", until the answer", Unit: "ms", Of: "median", Runs: all},
				[2]float64{median(took[verb][0]), median(took[verb][1])})
			m.row(evidence.Peer{Name: verb + "-" + resource + "-cpu", What: what + ", CPU of the servers", Unit: "ms", Of: "mean", Runs: all},
				[2]float64{milliseconds(cpu[verb][0]) / float64(all), milliseconds(cpu[verb][1]) / float64(all)})
		}
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
