// Package reload reads a configuration file again when it changes, and counts what came of that under upstream's names.
package reload

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Interval is how often a file is read unless Options say otherwise.
const Interval = time.Second

// MaxSize is how large a file may be, in bytes.
const MaxSize = 16 << 20

// ErrLater wraps what may pass without a change to the file: it is tried again.
var ErrLater = errors.New("cannot be used yet")

// Options of New.
type Options struct {
	// Path is that of the file.
	Path string
	// What is "authentication", "authorization", "audit_policy" or "audit_webhook", as in the names of metrics and in the log.
	What string
	// Server identifies this server in metrics; it may be empty.
	Server string
	// Interval is how often the file is read; 0 means Interval.
	Interval time.Duration
	// Log receives what is wrong with the file, once, and that it was read again.
	Log *slog.Logger
}

// File is a file that is read again when it changes. Make one with New. It is a prometheus.Collector.
type File struct {
	options Options
	data    string // that has been used, or refused for good
	offered string // that was last offered
	told    string // the last error

	mu           sync.Mutex // guards what follows
	used         string     // the data in force
	results      map[string]uint64
	last         map[string]time.Time
	total, since *prometheus.Desc
	info         *prometheus.Desc
}

// New returns a File whose data is in force.
func New(data []byte, o Options) *File {
	if o.Interval == 0 {
		o.Interval = Interval
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	name := func(suffix string) string { return "apiserver_" + o.What + "_config_controller_" + suffix }
	return &File{
		options: o, data: string(data), used: string(data), results: map[string]uint64{}, last: map[string]time.Time{},
		total: prometheus.NewDesc(name("automatic_reloads_total"), "[BETA] Number of times that the file was read again, by what came of it.", []string{"status", "apiserver_id_hash"}, nil),
		since: prometheus.NewDesc(name("automatic_reload_last_timestamp_seconds"), "[BETA] When the file was last read again, by what came of it.", []string{"status", "apiserver_id_hash"}, nil),
		info:  prometheus.NewDesc(name("last_config_info"), "[ALPHA] The hash of what the file says that is in force.", []string{"apiserver_id_hash", "hash"}, nil),
	}
}

// Read returns the content of a file.
func Read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && info.Size() > MaxSize {
		err = fmt.Errorf("%s is larger than %d bytes", path, MaxSize)
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// Run calls use with the content of the file whenever that changes, until ctx ends. Content that use refuses is not offered again,
// unless the error wraps ErrLater. Run must not run twice at once.
func (f *File) Run(ctx context.Context, use func(ctx context.Context, data []byte) error) {
	tick := time.NewTicker(f.options.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := f.check(ctx, use)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			f.told = ""
		} else if err.Error() != f.told {
			f.told = err.Error()
			f.options.Log.Error("failed to reload "+f.options.What+" config; what the file said before stays in force", "file", f.options.Path, "error", err)
			f.count("failure")
		}
	}
}

func (f *File) check(ctx context.Context, use func(ctx context.Context, data []byte) error) error {
	data, err := Read(f.options.Path)
	if err != nil {
		return err
	}
	if string(data) == f.data {
		return nil
	}
	if string(data) != f.offered {
		f.offered, f.told = string(data), ""
	}
	if err := use(ctx, data); err != nil {
		if !errors.Is(err, ErrLater) {
			f.data = string(data)
		}
		return err
	}
	f.data = string(data)
	f.mu.Lock()
	f.used = f.data
	f.mu.Unlock()
	f.count("success")
	f.options.Log.Info("reloaded "+f.options.What+" config", "file", f.options.Path)
	return nil
}

func (f *File) count(result string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.results[result]++
	f.last[result] = time.Now()
}

// Describe implements prometheus.Collector.
func (f *File) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{f.total, f.since, f.info} {
		c <- d
	}
}

// Collect implements prometheus.Collector.
func (f *File) Collect(c chan<- prometheus.Metric) {
	f.mu.Lock()
	defer f.mu.Unlock()
	server := Hash(f.options.Server)
	for result, n := range f.results {
		c <- prometheus.MustNewConstMetric(f.total, prometheus.CounterValue, float64(n), result, server)
		c <- prometheus.MustNewConstMetric(f.since, prometheus.GaugeValue, float64(f.last[result].UnixNano())/1e9, result, server)
	}
	c <- prometheus.MustNewConstMetric(f.info, prometheus.GaugeValue, 1, server, Hash(f.used))
}

// Hash returns the hash of a text as upstream writes it in labels.
func Hash(text string) string {
	if text == "" {
		return ""
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text)))
}
