package announce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/keelson-dev/keelson/cni/bridge"
)

// Options of an Announcer. The zero value is ready to use.
type Options struct {
	Logger *slog.Logger // of pods that could not be announced; nil logs nothing
}

// Announcer announces the pods of a bridge. Make one with New.
type Announcer struct {
	bridge *bridge.Bridge
	log    *slog.Logger
}

// New makes an announcer for a bridge that is in the network namespace of the thread that calls Run.
func New(b *bridge.Bridge, o Options) *Announcer {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Announcer{bridge: b, log: o.Logger}
}

// Run announces pods as they are attached, until the context ends, and then returns nil. It learns of them by the results
// that the runtime's libcni caches. While the system cannot watch their directory, it looks into it every second.
func (a *Announcer) Run(ctx context.Context) error {
	out, err := open()
	if err != nil {
		return fmt.Errorf("socket for announcements of pods: %w", err)
	}
	defer func() { _ = out.Close() }()
	dir := a.bridge.ResultDir()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	seen, told := map[string]written{}, false
	for ctx.Err() == nil {
		watcher, err := watch(dir)
		if err != nil && !told {
			a.log.Warn("new pods cannot be watched for; they are looked for every second", "directory", dir, "err", err)
		}
		told = err != nil
		seen = a.all(ctx, out, seen) // after the watch has begun, so that none is missed
		if watcher == nil {
			wait(ctx, pollInterval)
		} else if err := a.follow(ctx, out, watcher); err != nil {
			a.log.Warn("watching for new pods ended; it is tried again", "directory", dir, "err", err)
			wait(ctx, pollInterval)
		}
	}
	return nil
}

// pollInterval is how often a directory without notifications is read.
const pollInterval = time.Second

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// watch starts notifications of a directory.
func watch(dir string) (*fsnotify.Watcher, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	if err := watcher.Add(dir); err != nil {
		return nil, errors.Join(err, watcher.Close())
	}
	return watcher, nil
}

// follow announces pods as their results are written, until the context ends, or there are or may have been changes that
// the watcher does not report. It closes the watcher.
func (a *Announcer) follow(ctx context.Context, out sender, watcher *fsnotify.Watcher) error {
	defer func() { _ = watcher.Close() }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-watcher.Events:
			if e.Has(fsnotify.Write) {
				a.one(ctx, out, e.Name)
			}
			if len(watcher.WatchList()) == 0 {
				return errReplaced
			}
		case err := <-watcher.Errors:
			if errors.Is(err, fsnotify.ErrEventOverflow) {
				return nil
			}
			return err
		}
	}
}

// errReplaced means that the directory that was watched is not there any more.
var errReplaced = errors.New("the directory was removed or replaced")

// written tells one content of a file from another.
type written struct {
	at   time.Time
	size int64
}

// all announces the pods whose results are not among those seen, and returns what is there.
func (a *Announcer) all(ctx context.Context, out sender, seen map[string]written) map[string]written {
	dir := a.bridge.ResultDir()
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		a.log.Error("cannot read the results of the network's plugins", "err", err)
	}
	there := map[string]written{}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			continue // it has gone
		}
		now := written{info.ModTime(), info.Size()} // before it is read, so that what is written then counts as new
		if there[f.Name()] = now; seen[f.Name()] != now {
			a.one(ctx, out, filepath.Join(dir, f.Name()))
		}
	}
	return there
}

// one announces the pod of a file, if it is one of this network and complete: the next event comes with the rest.
func (a *Announcer) one(ctx context.Context, out sender, file string) {
	endpoints, err := a.bridge.Endpoints(file)
	if err == nil && len(endpoints) > 0 {
		err = errors.Join(a.bridge.Learn(ctx, endpoints), out.send(a.bridge.Device(), a.source, endpoints))
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) && ctx.Err() == nil {
		a.log.Warn("a new pod could not be announced: whoever knew the pod that had its address may not reach it for ten seconds",
			"file", file, "err", err)
	}
}

// source is the bridge's address of the family.
func (a *Announcer) source(of netip.Addr) netip.Addr {
	for _, gateway := range a.bridge.Gateways() {
		if gateway.Addr().Is4() == of.Is4() {
			return gateway.Addr()
		}
	}
	return of
}
