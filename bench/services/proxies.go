package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/keelson-dev/keelson/internal/evidence"
)

// table collects values by row and side.
type table struct {
	names  []string
	values map[string]*[2][]float64
	what   map[string][2]string
}

func (t *table) add(name, what, unit string, side int, value float64) {
	if t.values == nil {
		t.values, t.what = map[string]*[2][]float64{}, map[string][2]string{}
	}
	if t.values[name] == nil {
		t.names = append(t.names, name)
		t.values[name], t.what[name] = &[2][]float64{}, [2]string{what, unit}
	}
	t.values[name][side] = append(t.values[name][side], value)
	fmt.Printf("  %-9s %-70s %10.3f %s\n", [...]string{"keelson", "upstream"}[side], what, value, unit)
}

func (t *table) rows() (rows []evidence.Peer) {
	for _, name := range t.names {
		v := t.values[name]
		row := evidence.Peer{
			Name: name, What: t.what[name][0], Unit: t.what[name][1], Of: "median", Runs: len(v[0]), Keelson: median(v[0]), Upstream: median(v[1]),
		}
		row.Ratio = row.Upstream / row.Keelson
		rows = append(rows, row)
	}
	return rows
}

func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// process is a program that is measured.
type process struct {
	*exec.Cmd
	log string
}

func (s *site) start(ctx context.Context, command []string) (*process, error) {
	log, err := os.CreateTemp(s.dir, filepath.Base(command[0])+"-*.log")
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	p := &process{exec.CommandContext(ctx, command[0], command[1:]...), log.Name()} //nolint:gosec // the programs to measure
	p.Stdout, p.Stderr = log, log
	p.Dir = s.dir
	return p, p.Start()
}

func (p *process) stop() {
	_ = p.Process.Signal(syscall.SIGTERM)
	done := make(chan struct{})
	go func() { defer close(done); _ = p.Wait() }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		_ = p.Process.Kill()
		<-done
	}
}

// explain adds the end of what the program has said to an error.
func (p *process) explain(err error) error {
	if err == nil {
		return nil
	}
	said, _ := os.ReadFile(p.log)
	return fmt.Errorf("%w\n%s", err, said[max(0, len(said)-2000):])
}

// memory is the resident memory in MB.
func (p *process) memory() (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, after, ok := strings.Cut(string(status), "VmRSS:")
	fields := strings.Fields(after)
	if !ok || len(fields) == 0 {
		return 0, errors.New("no VmRSS")
	}
	kb, err := strconv.ParseFloat(fields[0], 64)
	return kb * 1024 / 1e6, err
}

// cpu is the time of all cores so far.
func (p *process) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Process.Pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	user, err := strconv.Atoi(fields[11])
	if err != nil {
		return 0, err
	}
	system, err := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond, err // ticks are 1/100 s on Linux
}

// proxy measures one proxy: the first sync, its memory, and how long changes take.
func (s *site) proxy(ctx context.Context, command []string, all *table, side int) (err error) {
	began := time.Now()
	p, err := s.start(ctx, command)
	if err != nil {
		return err
	}
	defer func() {
		err = p.explain(err)
		p.stop()
		_ = exec.CommandContext(context.WithoutCancel(ctx), "nft", "flush", "ruleset").Run() // of this namespace
	}()
	if err := s.world.complete(ctx); err != nil {
		return err
	}
	count := fmt.Sprintf("%d services of two endpoints", s.services)
	all.add("first-sync", "start of the proxy until packets reach "+count, "s", side, time.Since(began).Seconds())
	time.Sleep(5 * time.Second)
	mb, err := p.memory()
	if err != nil {
		return err
	}
	all.add("memory", "memory of the proxy with "+count, "MB", side, mb)
	var took []time.Duration
	for range s.changes {
		time.Sleep(1100 * time.Millisecond) // kube-proxy waits for a second after each write
		one, err := s.world.change(ctx)
		if err != nil {
			return err
		}
		took = append(took, one)
	}
	slices.Sort(took)
	at := func(q int) float64 { return float64(took[(len(took)-1)*q/100].Microseconds()) / 1000 }
	all.add("change-p50", "request at the API server that changes an endpoint until packets follow, p50", "ms", side, at(50))
	all.add("change-p99", "the same, p99", "ms", side, at(99))
	if mb, err = p.memory(); err != nil {
		return err
	}
	all.add("memory-after", "memory of the proxy after the changes", "MB", side, mb)
	return nil
}
