package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/clusterprocess"
	"github.com/keelson-dev/keelson/internal/evidence"
)

// TestMeasure is a small version of the measurement, with keelson on both sides and no limits on time: each row has
// figures, and all watchers see all writes.
func TestMeasure(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds and starts clusters")
	}
	program, err := clusterprocess.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m := &measurement{
		options: options{
			starts: 1, quiet: 10 * time.Millisecond, rounds: 2, requests: 5, pods: 30, many: 3, objects: 20, writes: 10, watchers: []int{2, 3}, replicas: 4, progress: t.Output(),
		},
		dir: t.TempDir(), crews: crews{leftOut: "it would take minutes"},
		use: func(ctx context.Context, s *side, _ string) error {
			_, err := s.api.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
			return err
		},
		sides: [2]side{{name: "one", peer: keelson{program}}, {name: "other", peer: keelson{program}}},
	}
	rows, err := m.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, r := range rows {
		if names[r.Name] || r.What == "" {
			t.Errorf("twice, or without words: %+v", r)
		}
		names[r.Name] = true
		// CPU time is counted in ticks; so little work may take none, and none of memory either.
		if r.LeftOut == "" && r.Unit != "µs" && !strings.HasSuffix(r.Name, "-memory") && !strings.Contains(r.What, "CPU") && (r.Keelson <= 0 || r.Upstream <= 0 || r.Ratio <= 0) {
			t.Errorf("without figures: %+v", r)
		}
	}
	for _, name := range []string{
		"start", "memory", "idle", "definition", "definitions", "apply-custom", "create-pods", "update-configmaps-cpu", "many-JSON-bytes", "many-Protobuf-cpu", "watch-2", "watch-3", "deployment", "containers-3-ready",
	} {
		if !names[name] {
			t.Errorf("there is no row %s", name)
		}
	}
}

// broken is a peer that cannot be started.
type broken struct{}

var errNoStart = errors.New("it does not start")

func (broken) start(context.Context, string) (*plane, error) { return nil, errNoStart }

func TestPeerThatDoesNotStart(t *testing.T) {
	m := &measurement{options: options{starts: 1, progress: io.Discard}, dir: t.TempDir(), sides: [2]side{{name: "keelson", peer: broken{}}, {name: "upstream", peer: broken{}}}}
	if _, err := m.run(t.Context()); !errors.Is(err, errNoStart) || !strings.Contains(err.Error(), "keelson: ") {
		t.Errorf("run: %v", err)
	}
}

// Without upstream's programs the result is a failure, and is written.
func TestWithoutPrograms(t *testing.T) {
	dir := t.TempDir()
	err := record(t.Context(), options{starts: 1, progress: io.Discard}, filepath.Join(dir, "nothing"), dir)
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("record: %v", err)
	}
	if r, err := evidence.Read(dir, "peers"); err != nil || r.Passed || len(r.Failures) == 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A part that does not exist is an error, so that nobody takes silence for figures.
func TestParts(t *testing.T) {
	for only, ok := range map[string]bool{"": true, "memory,requests": true, "memory,request": false, ",": false} {
		if err := (&measurement{options: options{only: only}}).checkParts(); (err == nil) != ok {
			t.Errorf("%q: %v", only, err)
		}
	}
}

// The order of the sides changes from round to round.
func TestInTurn(t *testing.T) {
	m := &measurement{sides: [2]side{{name: "a"}, {name: "b"}}}
	var order strings.Builder
	if err := m.inTurn(3, func(round, i int, s *side) error {
		if want := m.sides[i].name; s.name != want {
			t.Errorf("side %d is %s", i, s.name)
		}
		order.WriteString(s.name)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := order.String(); got != "abbaab" {
		t.Errorf("in turn: %s", got)
	}
}

func TestRow(t *testing.T) {
	m := &measurement{options: options{progress: io.Discard}}
	m.row(evidence.Peer{Name: "both"}, [2]float64{2, 5})
	m.row(evidence.Peer{Name: "none of the first"}, [2]float64{0, 5})
	if r := m.rows[0]; r.Keelson != 2 || r.Upstream != 5 || r.Ratio != 2.5 {
		t.Errorf("%+v", r)
	}
	if r := m.rows[1]; r.Ratio != 0 {
		t.Errorf("a ratio to nothing: %+v", r)
	}
}

func TestProc(t *testing.T) {
	const stat = "4711 (a (strange) name) S 1 4711 4711 0 -1 4194560 1 2 3 4 150 25 0 0 20 0 9 0 100 200 300\n"
	if d, err := cpuIn([]byte(stat)); err != nil || d != 1750*time.Millisecond {
		t.Errorf("%v, %v", d, err)
	}
	if n, err := residentIn([]byte("Name:\tx\nVmRSS:\t   12345 kB\n")); err != nil || n != 12345 {
		t.Errorf("%d, %v", n, err)
	}
	for _, bad := range []string{"", "1 (x) S 1", "1 (x) S 1 1 1 0 -1 1 1 2 3 4 a b 0"} {
		if _, err := cpuIn([]byte(bad)); !errors.Is(err, errProc) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := residentIn([]byte("Name: x\n")); !errors.Is(err, errProc) {
		t.Errorf("without memory: %v", err)
	}
}

func TestVersion(t *testing.T) {
	for said, want := range map[string]string{"Kubernetes v1.37.1\n": "v1.37.1", "etcd Version: 3.7.3\nGit SHA: x\n": "3.7.3", "what?": "unknown"} {
		if got := versionIn(said); got != want {
			t.Errorf("%q: %s", said, got)
		}
	}
}
