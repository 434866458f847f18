package health

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Check is a condition under which a server is healthy.
type Check struct {
	// Name is a path below the endpoints: "ping", "poststarthook/start-informers".
	Name string
	// Group is another name by which ?exclude= leaves the check out; optional.
	Group string
	// Boot marks a check that fails until the server has started: /livez ignores it for Options.Grace.
	Boot bool
	// Run returns nil if the server is healthy, or why it is not. It must return when its context ends, and is called
	// concurrently.
	Run func(ctx context.Context) error
}

// Options of the endpoints; the zero value has only the check "ping".
type Options struct {
	// Checks are those of all endpoints. "ping" comes before them.
	Checks []Check
	// Ready are further checks of /readyz. They come last.
	Ready []Check
	// Grace is how long after New /livez takes Boot checks for passed.
	Grace time.Duration
	// Logger gets the reasons of failed checks. nil discards.
	Logger *slog.Logger
}

// New returns the handlers of /healthz, /livez and /readyz and of every check below them, by path.
func New(o Options) map[string]http.Handler {
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	checks := append([]Check{Ping()}, o.Checks...)
	began := time.Now()
	live := slices.Clone(checks)
	for i, c := range live {
		if c.Boot && o.Grace > 0 {
			live[i].Run = func(ctx context.Context) error {
				if time.Since(began) <= o.Grace {
					return nil
				}
				return c.Run(ctx)
			}
		}
	}
	handlers := map[string]http.Handler{}
	for name, checks := range map[string][]Check{
		"healthz": checks, "livez": live, "readyz": slices.Concat(checks, o.Ready),
	} {
		handlers["/"+name] = &endpoint{name, checks, log}
		for _, c := range checks {
			handlers["/"+name+"/"+c.Name] = single(c)
		}
	}
	return handlers
}

// endpoint serves a list of checks.
type endpoint struct {
	name   string
	checks []Check
	log    *slog.Logger
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	var report bytes.Buffer
	var failed []string
	var reasons []error
	used := map[string]bool{}
	exclude := query["exclude"]
	for _, c := range e.checks {
		switch {
		case slices.Contains(exclude, c.Name):
			used[c.Name] = true
			fmt.Fprintf(&report, "[+]%s excluded: ok\n", c.Name)
			continue
		case c.Group != "" && slices.Contains(exclude, c.Group):
			used[c.Group] = true
			fmt.Fprintf(&report, "[+]%s excluded with %s: ok\n", c.Name, c.Group)
			continue
		}
		if err := c.Run(r.Context()); err != nil {
			fmt.Fprintf(&report, "[-]%s failed: reason withheld\n", c.Name)
			failed = append(failed, c.Name)
			reasons = append(reasons, fmt.Errorf("%s: %w", c.Name, err))
			continue
		}
		fmt.Fprintf(&report, "[+]%s ok\n", c.Name)
	}
	if unknown := unused(exclude, used); len(unknown) > 0 {
		fmt.Fprintf(&report, "warn: some health checks cannot be excluded: no matches for %s\n", strings.Join(unknown, ","))
	}
	if len(failed) > 0 {
		e.log.Info("health check failed", "endpoint", e.name, "checks", failed, "error", errors.Join(reasons...))
		http.Error(w, report.String()+e.name+" check failed", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if _, verbose := query["verbose"]; !verbose {
		_, _ = io.WriteString(w, "ok") // a prober that is gone is no error of ours
		return
	}
	_, _ = fmt.Fprintf(w, "%s%s check passed\n", report.String(), e.name)
}

// unused returns the values of the parameter exclude that excluded nothing, quoted and sorted.
func unused(exclude []string, used map[string]bool) []string {
	var names []string
	for _, name := range exclude {
		if quoted := fmt.Sprintf("%q", name); !used[name] && !slices.Contains(names, quoted) {
			names = append(names, quoted)
		}
	}
	slices.Sort(names)
	return names
}

// single serves one check, and says why it fails.
func single(c Check) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := c.Run(r.Context()); err != nil {
			http.Error(w, fmt.Sprintf("internal server error: %v", err), http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, "ok") // a prober that is gone is no error of ours
	})
}
