package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/internal/evidence"
)

// lists measures the list of many pods: its bytes on the wire and the servers' CPU, in both encodings, compressed as
// client-go requests it.
func (m *measurement) lists(ctx context.Context) error {
	const namespace = "many"
	for i := range m.sides {
		if err := m.fill(ctx, &m.sides[i], namespace); err != nil {
			return fmt.Errorf("%s: %w", m.sides[i].name, err)
		}
	}
	const times = 10
	for _, encoding := range []struct{ name, media string }{{"JSON", "application/json"}, {"Protobuf", "application/vnd.kubernetes.protobuf"}} {
		var bytes [2]float64
		var cpu [2]time.Duration
		err := m.inTurn(m.rounds, func(_, i int, s *side) error {
			used, err := s.spent(ctx, func() error {
				for range times {
					n, err := weigh(ctx, s.plane.config, "/api/v1/namespaces/"+namespace+"/pods", encoding.media)
					if err != nil {
						return err
					}
					bytes[i] = float64(n) / 1000
				}
				return nil
			})
			cpu[i] += used
			return err
		})
		if err != nil {
			return err
		}
		what := fmt.Sprintf("list of %d pods in %s", m.pods, encoding.name)
		all := m.rounds * times
		m.row(evidence.Peer{Name: "many-" + encoding.name + "-bytes", What: what + ", on the wire", Unit: "kB"}, bytes)
		m.row(evidence.Peer{Name: "many-" + encoding.name + "-cpu", What: what + ", CPU of the servers", Unit: "ms", Of: "mean", Runs: all},
			[2]float64{milliseconds(cpu[0]) / float64(all), milliseconds(cpu[1]) / float64(all)})
	}
	return nil
}

// fill creates the pods, several concurrently.
func (m *measurement) fill(ctx context.Context, s *side, namespace string) error {
	if err := s.namespace(ctx, namespace); err != nil {
		return err
	}
	var next atomic.Int64
	errs := make([]error, 8)
	var workers sync.WaitGroup
	for i := range errs {
		workers.Go(func() {
			for n := next.Add(1); n <= int64(m.pods) && errs[i] == nil; n = next.Add(1) {
				_, errs[i] = s.api.CoreV1().Pods(namespace).Create(ctx, pod(namespace, "pod-"+strconv.FormatInt(n, 10)), metav1.CreateOptions{})
			}
		})
	}
	workers.Wait()
	return errors.Join(errs...)
}

// weigh sends one request and counts the bytes of the response body.
func weigh(ctx context.Context, config *rest.Config, path, media string) (int64, error) {
	client, err := rest.HTTPClientFor(config) // all clients with this config share the transport
	if err != nil {
		return 0, err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+path, nil)
	if err != nil {
		return 0, err
	}
	q.Header.Set("Accept", media)
	q.Header.Set("Accept-Encoding", "gzip") // if set explicitly, the response is not decompressed
	answer, err := client.Do(q)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	n, err := io.Copy(io.Discard, answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("list: %s", answer.Status)
	}
	return n, err
}
