package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/registry/codec"
)

// served is a server running as a part, and a client of it.
type served struct {
	*part
	dir, address string
	*asking
}

func startServer(ctx context.Context, start starter, dir string) (*served, error) {
	dir, err := os.MkdirTemp(dir, "server-")
	if err != nil {
		return nil, err
	}
	p, err := start(ctx, "server", dir)
	if err != nil {
		return nil, err
	}
	address, err := p.hear("at")
	if err != nil {
		return nil, errors.Join(err, p.end())
	}
	way, err := outsider(dir)
	if err != nil {
		return nil, errors.Join(err, p.end())
	}
	return &served{p, dir, address, &asking{way: way, base: "https://" + address}}, nil
}

func (s *served) watch(ctx context.Context, start starter, plan, path string) (*part, error) {
	p, err := start(ctx, "watchers", s.dir, s.address, plan, path)
	if err != nil {
		return nil, err
	}
	if _, err := p.hear("open"); err != nil {
		return nil, errors.Join(err, p.end())
	}
	return p, nil
}

// quiet is the idle time before a measured write.
const quiet = 30 * time.Millisecond

// answers measures the time until a write is answered, alternating between a resource without watchers and one with
// many. After each write of the latter it waits for all watchers.
func answers(ctx context.Context, start starter, dir, plan string, rounds int) (alone, watched measured, err error) {
	s, err := startServer(ctx, start, dir)
	if err != nil {
		return alone, watched, err
	}
	defer func() { err = errors.Join(err, s.end()) }()
	for _, resource := range []string{"secrets", "configmaps"} {
		if _, err := s.call(ctx, http.MethodPost, "/api/v1/namespaces/default/"+resource, document(0)); err != nil {
			return alone, watched, err
		}
	}
	// Watches begin at the newest revision and get no earlier events.
	data, err := s.call(ctx, http.MethodGet, "/api/v1/configmaps", "")
	if err != nil {
		return alone, watched, err
	}
	var now corev1.ConfigMapList
	if _, err := codec.Decode(data, &now); err != nil {
		return alone, watched, err
	}
	w, err := s.watch(ctx, start, plan, "/api/v1/configmaps?watch=1&allowWatchBookmarks=true&timeoutSeconds=3000&resourceVersion="+now.ResourceVersion)
	if err != nil {
		return alone, watched, err
	}
	defer func() { err = errors.Join(err, w.end()) }()
	write := func(resource string, n int) (time.Duration, error) {
		time.Sleep(quiet) // clients, too, have processed what came before
		began := time.Now()
		_, err := s.call(ctx, http.MethodPut, "/api/v1/namespaces/default/"+resource+"/one", document(n))
		return time.Since(began), err
	}
	for n := range rounds + 5 {
		took, err := write("secrets", n+1)
		if err != nil {
			return alone, watched, err
		}
		tookWatched, err := write("configmaps", n+1)
		if err != nil {
			return alone, watched, err
		}
		if _, err := w.hear("heard"); err != nil {
			return alone, watched, err
		}
		if n >= 5 {
			alone.samples = append(alone.samples, took)
			watched.samples = append(watched.samples, tookWatched)
		}
	}
	return alone, watched, nil
}

// document returns an object that is valid as a ConfigMap and as a Secret.
func document(n int) string {
	return fmt.Sprintf(`{"metadata":{"name":"one"},"data":{"a":"%08d"}}`, n)
}

// idle measures what idle watches cost a server.
func idle(ctx context.Context, start starter, dir, plan, profiles string) (before, after memory, err error) {
	s, err := startServer(ctx, start, dir)
	if err != nil {
		return before, after, err
	}
	defer func() { err = errors.Join(err, s.end()) }()
	if _, err := s.call(ctx, http.MethodPost, "/api/v1/namespaces/default/configmaps", document(0)); err != nil {
		return before, after, err
	}
	if before, err = s.memory(""); err != nil {
		return before, after, err
	}
	// What a kubelet watches: single objects, by name.
	w, err := s.watch(ctx, start, plan, "/api/v1/namespaces/default/configmaps?watch=1&allowWatchBookmarks=true&resourceVersion=1&timeoutSeconds=3000&fieldSelector=metadata.name%3Dsettings-N")
	if err != nil {
		return before, after, err
	}
	defer func() { err = errors.Join(err, w.end()) }()
	after, err = s.memory(profiles)
	return before, after, err
}
