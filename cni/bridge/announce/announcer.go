package announce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"

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
// that the runtime's libcni caches.
func (a *Announcer) Run(ctx context.Context) error {
	out, err := open()
	if err != nil {
		return fmt.Errorf("socket for announcements of pods: %w", err)
	}
	defer func() { _ = out.Close() }()
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watching for new pods: %w", err)
	}
	defer func() { _ = watcher.Close() }()
	dir := a.bridge.ResultDir()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := watcher.Add(dir); err != nil {
		return fmt.Errorf("watching %s for new pods: %w", dir, err)
	}
	a.all(ctx, out)
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-watcher.Events:
			if e.Has(fsnotify.Write) {
				a.one(ctx, out, e.Name)
			}
		case err := <-watcher.Errors:
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				return fmt.Errorf("watching %s for new pods: %w", dir, err)
			}
			a.all(ctx, out)
		}
	}
}

// all announces the pods that there are.
func (a *Announcer) all(ctx context.Context, out sender) {
	files, err := os.ReadDir(a.bridge.ResultDir())
	if err != nil {
		a.log.Error("cannot read the results of the network's plugins", "err", err)
	}
	for _, f := range files {
		a.one(ctx, out, filepath.Join(a.bridge.ResultDir(), f.Name()))
	}
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
