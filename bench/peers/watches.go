package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/internal/evidence"
)

// watches measures what it costs to send each change of a busy resource to many clients, each on its own connection;
// the CPU of the same writes without watchers is subtracted.
func (m *measurement) watches(ctx context.Context) error {
	counts := append([]int{0}, m.watchers...)
	cpu := map[int]*[2]time.Duration{}
	for _, n := range counts {
		cpu[n] = &[2]time.Duration{}
	}
	err := m.inTurn(m.rounds, func(round, i int, s *side) error {
		namespace := "busy-" + strconv.Itoa(round)
		if err := s.namespace(ctx, namespace); err != nil {
			return err
		}
		known := make([]*corev1.ConfigMap, 10)
		for n := range known {
			var err error
			if known[n], err = s.api.CoreV1().ConfigMaps(namespace).Create(ctx, configMap("busy-"+strconv.Itoa(n)), metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		for _, watchers := range counts {
			used, err := m.watched(ctx, s, known, watchers)
			if err != nil {
				return fmt.Errorf("%d watchers: %w", watchers, err)
			}
			cpu[watchers][i] += used
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, n := range m.watchers {
		events := m.rounds * m.writes * n
		var values [2]float64
		for i := range values {
			values[i] = float64(max(0, cpu[n][i]-cpu[0][i]).Microseconds()) / float64(events)
		}
		m.row(evidence.Peer{Name: "watch-" + strconv.Itoa(n), What: fmt.Sprintf("event told to one of %d watchers over TLS, CPU of the servers beyond the writes'", n), Unit: "µs", Of: "mean", Runs: events}, values)
	}
	return nil
}

// watched measures the CPU of the writes with that many watchers. All of them must receive every write.
func (m *measurement) watched(ctx context.Context, s *side, known []*corev1.ConfigMap, watchers int) (used time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	var heard atomic.Int64
	namespace := known[0].Namespace
	list, err := s.api.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	for range watchers {
		body, err := openWatch(ctx, s.plane.config, "/api/v1/namespaces/"+namespace+"/configmaps?watch=1&resourceVersion="+list.ResourceVersion)
		if err != nil {
			return 0, err
		}
		reading.Go(func() { hear(body, &heard) })
	}
	return s.spent(ctx, func() error {
		for n := range m.writes {
			c := known[n%len(known)]
			c.Data["round"] = fmt.Sprintf("%d of %d", n, watchers)
			var err error
			if known[n%len(known)], err = s.api.CoreV1().ConfigMaps(namespace).Update(ctx, c, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
		return soon(ctx, "the watchers", func(context.Context) error {
			if got, want := heard.Load(), int64(watchers*m.writes); got != want {
				return fmt.Errorf("%w: %d events of %d", errNotYet, got, want)
			}
			return nil
		})
	})
}

// errNotYet means that not all watchers have received all changes.
var errNotYet = errors.New("not all is told")

// openWatch opens a watch on its own connection.
func openWatch(ctx context.Context, config *rest.Config, path string) (io.ReadCloser, error) {
	secrets, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	way := &http.Transport{TLSClientConfig: secrets, ForceAttemptHTTP2: true}
	context.AfterFunc(ctx, way.CloseIdleConnections)
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+path, nil)
	if err != nil {
		return nil, err
	}
	if config.BearerToken != "" {
		q.Header.Set("Authorization", "Bearer "+config.BearerToken)
	}
	answer, err := way.RoundTrip(q)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("watch: %s", answer.Status), answer.Body.Close())
	}
	return answer.Body, nil
}

// hear counts events by their newlines without decoding them: the client is not what is measured.
func hear(body io.ReadCloser, heard *atomic.Int64) {
	defer body.Close()
	piece := make([]byte, 32<<10)
	for {
		n, err := body.Read(piece)
		heard.Add(int64(bytes.Count(piece[:n], []byte("\n"))))
		if err != nil {
			return
		}
	}
}
