package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/internal/evidence"
)

// peer is a control plane that can be started.
type peer interface {
	// start starts one in a new directory. It may return before the control plane serves.
	start(ctx context.Context, dir string) (*plane, error)
}

// plane is a running control plane.
type plane struct {
	config *rest.Config // the administrator's, without rate limits
	// processes returns the numbers of its processes.
	processes func() ([]int, error)
	stop      func() error
}

// side is one of the two sides that are compared.
type side struct {
	name string
	peer peer

	plane *plane
	api   kubernetes.Interface
	// idle is the CPU it uses per second without requests.
	idle float64
}

// measurement compares two sides.
type measurement struct {
	options
	dir    string
	use    func(ctx context.Context, s *side, home string) error // light use, as by a person
	sides  [2]side
	crews  crews
	serial int
	rows   []evidence.Peer
}

// run measures everything. It returns the measured rows even with an error.
func (m *measurement) run(ctx context.Context) (rows []evidence.Peer, err error) {
	if m.only == "" {
		if err := m.starts(ctx); err != nil {
			return m.rows, err
		}
	}
	for i := range m.sides {
		s := &m.sides[i]
		if s.plane, err = s.peer.start(ctx, m.next(s)); err != nil {
			return m.rows, fmt.Errorf("%s: %w", s.name, err)
		}
		defer func() { err = errors.Join(err, s.plane.stop()) }()
		if s.api, err = kubernetes.NewForConfig(s.plane.config); err != nil {
			return m.rows, err
		}
		if err := firstPod(ctx, s.plane.config); err != nil {
			return m.rows, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	for _, part := range m.parts() {
		if m.only != "" && !slices.Contains(strings.Split(m.only, ","), part.name) {
			continue
		}
		if err := part.measure(ctx); err != nil {
			return m.rows, err
		}
	}
	return m.rows, nil
}

// part is a part of the measurement.
type part struct {
	name    string
	measure func(context.Context) error
}

// parts returns what is measured on planes that run; their start is measured before.
func (m *measurement) parts() []part {
	return []part{
		{"memory", m.memory}, {"definitions", m.definitions}, {"requests", m.requestsOf}, {"objects", m.customObjects}, {"lists", m.lists},
		{"watches", m.watches}, {"deployments", m.deployments}, {"containers", m.containers},
	}
}

// checkParts returns an error if a part is to be measured that does not exist.
func (m *measurement) checkParts() error {
	var names []string
	for _, p := range m.parts() {
		names = append(names, p.name)
	}
	for _, name := range strings.Split(m.only, ",") {
		if m.only != "" && !slices.Contains(names, name) {
			return fmt.Errorf("-only: there is no part %q; the parts are %s", name, strings.Join(names, ", "))
		}
	}
	return nil
}

// next returns a new directory for a side.
func (m *measurement) next(s *side) string {
	m.serial++
	return filepath.Join(m.dir, s.name+"-"+strconv.Itoa(m.serial))
}

// inTurn runs do for each side in each round; which side is first alternates.
func (m *measurement) inTurn(rounds int, do func(round, side int, s *side) error) error {
	for round := range rounds {
		for n := range m.sides {
			i := (n + round) % len(m.sides)
			if err := do(round, i, &m.sides[i]); err != nil {
				return fmt.Errorf("%s: %w", m.sides[i].name, err)
			}
		}
	}
	return nil
}

// row records a row: keelson's value, and upstream's.
func (m *measurement) row(p evidence.Peer, values [2]float64) {
	p.Keelson, p.Upstream = values[0], values[1]
	if p.Keelson > 0 && p.Upstream > 0 {
		p.Ratio = p.Upstream / p.Keelson
	}
	m.rows = append(m.rows, p)
	fmt.Fprintf(m.progress, "%-80s %10.4g %10.4g %s\n", p.What, p.Keelson, p.Upstream, p.Unit)
}

// spent returns the CPU that a side used for some work, above its idle usage: never negative.
func (s *side) spent(ctx context.Context, work func() error) (time.Duration, error) {
	before, err := s.cpu()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := work(); err != nil {
		return 0, err
	}
	// Work that a request leaves to be done later belongs to it.
	if err := pause(ctx, 100*time.Millisecond); err != nil {
		return 0, err
	}
	after, err := s.cpu()
	idle := time.Duration(s.idle * float64(time.Since(began)))
	return max(0, after-before-idle), err
}

func (s *side) cpu() (time.Duration, error) {
	processes, err := s.plane.processes()
	if err != nil {
		return 0, err
	}
	return cpuOf(processes)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func median[T cmp.Ordered](all []T) T {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
