package reload_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keelson-dev/keelson/cluster/internal/reload"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// gathered returns metrics by name and values of labels; times, which must be recent, are 1.
func gathered(t *testing.T, from prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			if strings.HasSuffix(f.GetName(), "_timestamp_seconds") {
				if at := m.GetGauge().GetValue(); at < float64(time.Now().Unix()-60) || at > float64(time.Now().Unix()+1) {
					t.Errorf("%s is %v", name, at)
				}
				all[name] = 1
				continue
			}
			all[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return all
}

// TestRun: content that is wrong for good is offered once, content that may do later again and again.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "file")
		write(t, path, "one")
		var log bytes.Buffer
		f := reload.New([]byte("one"), reload.Options{Path: path, What: "authentication", Server: "me", Log: slog.New(slog.NewTextHandler(&log, nil))})
		registry := prometheus.NewRegistry()
		registry.MustRegister(f)
		if err := registry.Register(f); !errors.As(err, new(prometheus.AlreadyRegisteredError)) {
			t.Errorf("its metrics are registered twice: %v", err)
		}
		var mu sync.Mutex // virtual time does not order what the two do
		var offered []string
		later := true
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			f.Run(ctx, func(_ context.Context, data []byte) error {
				mu.Lock()
				defer mu.Unlock()
				offered = append(offered, string(data))
				switch {
				case strings.HasPrefix(string(data), "wrong"):
					return errors.New("it is wrong")
				case string(data) == "end":
					cancel()
					return errors.New("it has ended")
				case strings.HasPrefix(string(data), "later") && later:
					return fmt.Errorf("%w: not yet", reload.ErrLater)
				}
				return nil
			})
		}()
		pass := func(want ...string) {
			t.Helper()
			mu.Lock()
			offered = nil
			mu.Unlock()
			time.Sleep(3 * time.Second)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if strings.Join(offered, " ") != strings.Join(want, " ") {
				t.Errorf("offered %q, want %q", offered, want)
			}
		}
		figures := func(success, failure int, inForce string) {
			t.Helper()
			me := reload.Hash("me")
			const name = "apiserver_authentication_config_controller_"
			want := map[string]float64{name + "last_config_info " + me + " " + reload.Hash(inForce): 1}
			for status, n := range map[string]int{"failure": failure, "success": success} {
				if n > 0 {
					want[name+"automatic_reloads_total "+me+" "+status] = float64(n)
					want[name+"automatic_reload_last_timestamp_seconds "+me+" "+status] = 1
				}
			}
			if got := gathered(t, registry); !reflect.DeepEqual(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		}
		pass()
		figures(0, 0, "one")
		write(t, path, "two")
		pass("two")
		figures(1, 0, "two")
		write(t, path, "wrong")
		pass("wrong")
		figures(1, 1, "two")
		write(t, path, "later")
		pass("later", "later", "later")
		figures(1, 2, "two")
		write(t, path, "later, too") // another file with the same error
		pass("later, too", "later, too", "later, too")
		figures(1, 3, "two")
		write(t, path, "later")
		pass("later", "later", "later")
		figures(1, 4, "two")
		mu.Lock()
		later = false
		mu.Unlock()
		pass("later")
		figures(2, 4, "later")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		pass()
		figures(2, 5, "later")
		write(t, path, "later")
		pass()
		figures(2, 5, "later")
		if err := os.Remove(path); err != nil { // the same error again, after a while without
			t.Fatal(err)
		}
		pass()
		figures(2, 6, "later")
		write(t, path, "wrong")
		pass("wrong")
		figures(2, 7, "later")
		write(t, path, "wrong, too") // another file with the same error
		pass("wrong, too")
		figures(2, 8, "later")
		write(t, path, "later")
		pass("later")
		figures(3, 8, "later")
		write(t, path, "end")
		pass("end")
		figures(3, 8, "later")
		<-ended
		for _, want := range []string{"it is wrong", "not yet", "no such file", "reloaded authentication config"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log does not tell %q:\n%s", want, log.String())
			}
		}
		if n := strings.Count(log.String(), "level=ERROR"); n != 8 {
			t.Errorf("%d errors are told:\n%s", n, log.String())
		}
	})
}

// TestDefaults: a file is read once a second, and nobody needs to be told.
func TestDefaults(t *testing.T) {
	for interval, want := range map[time.Duration]time.Duration{0: time.Second, 5 * time.Second: 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			write(t, path, "two")
			f := reload.New([]byte("one"), reload.Options{Path: path, What: "x", Interval: interval})
			ctx, cancel := context.WithCancel(t.Context())
			began := time.Now()
			f.Run(ctx, func(context.Context, []byte) error {
				cancel()
				return nil
			})
			if took := time.Since(began); took != want {
				t.Errorf("every %v: read after %v", interval, took)
			}
		})
	}
}

// TestEnd: Run ends while it waits.
func TestEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "file")
		write(t, path, "two")
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		began := time.Now()
		reload.New([]byte("one"), reload.Options{Path: path, What: "x"}).Run(ctx, func(context.Context, []byte) error {
			t.Error("it was read again")
			return nil
		})
		if took := time.Since(began); took != time.Millisecond {
			t.Errorf("it ended after %v", took)
		}
	})
}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, "")
	if err := os.Truncate(path, reload.MaxSize+1); err != nil {
		t.Fatal(err)
	}
	if _, err := reload.Read(path); err == nil || !strings.Contains(err.Error(), "is larger than") {
		t.Error(err)
	}
	if err := os.Truncate(path, reload.MaxSize); err != nil {
		t.Fatal(err)
	}
	if data, err := reload.Read(path); len(data) != reload.MaxSize || err != nil {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

func TestHash(t *testing.T) {
	if got := reload.Hash("x"); got != "sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881" || reload.Hash("") != "" {
		t.Error(got)
	}
}
