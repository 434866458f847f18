package csi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"k8s.io/apimachinery/pkg/types"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/keelson-dev/keelson/kubelet/internal/registrars"
)

const scanPeriod = time.Second

// Run registers the drivers whose registrars have sockets in plugins_registry, until the context ends; it then returns
// nil. It fails if the directory cannot be made, or the volumes of earlier processes cannot be listed.
func (d *Drivers) Run(ctx context.Context) error {
	registry := filepath.Join(d.dir, "plugins_registry")
	if err := os.MkdirAll(registry, 0o750); err != nil {
		return err
	}
	if err := d.recall(); err != nil {
		return err
	}
	r := registrars.New(registry, registration.CSIPlugin, plugins{d}, d.log)
	defer d.following.Wait()
	defer r.Wait()
	scan, sync := time.NewTicker(min(scanPeriod, d.options.Period)), time.NewTicker(d.options.Period)
	defer scan.Stop()
	defer sync.Stop()
	ready := false
	for {
		if !ready {
			if err := d.ensureCSINode(ctx); err == nil {
				ready = true
			} else if ctx.Err() == nil {
				d.log.Debug("there is no CSINode yet", "error", err)
			}
		}
		if ready {
			r.Scan(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-scan.C:
		case <-sync.C:
			d.tend(ctx)
		}
	}
}

// tend repeats the report of the volumes in use if it got lost, and has pods with volumes synced.
func (d *Drivers) tend(ctx context.Context) {
	all, err := d.published()
	if err != nil || len(all) == 0 && d.hasReported() {
		return
	}
	if _, err := d.report(ctx); err != nil && ctx.Err() == nil {
		d.log.Warn("reporting the volumes in use failed", "error", err)
	}
	if d.options.Sync == nil {
		return
	}
	pods := map[types.UID]bool{}
	for dir := range all {
		pods[types.UID(filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(dir)))))] = true
	}
	for uid := range pods {
		d.options.Sync(uid)
	}
}

// errVersions means that a driver speaks no version of CSI that is known here.
var errVersions = errors.New("none of the versions is supported")

// plugins are the drivers that register.
type plugins struct{ *Drivers }

// Enter makes a driver known here and in the API.
func (d plugins) Enter(ctx context.Context, info *registration.PluginInfo) error {
	name := info.GetName()
	supported := false
	for _, v := range info.GetSupportedVersions() {
		supported = supported || strings.HasPrefix(v, "1.")
	}
	if !supported {
		return fmt.Errorf("validation failed for CSI Driver %s at endpoint %s: %w: %q", name, info.GetEndpoint(), errVersions, info.GetSupportedVersions())
	}
	asked, cancel := context.WithTimeout(ctx, d.options.Timeout)
	defer cancel()
	driver, err := dial(info.GetEndpoint())
	if err != nil {
		return err
	}
	defer driver.close()
	node, err := driver.NodeGetInfo(asked, &csispec.NodeGetInfoRequest{})
	if err != nil {
		return fmt.Errorf("error during CSI NodeGetInfo() call: %w", err)
	}
	d.mu.Lock()
	d.registered[name] = info.GetEndpoint()
	d.mu.Unlock()
	if err := d.publishDriver(asked, name, node); err != nil {
		d.mu.Lock()
		delete(d.registered, name)
		d.mu.Unlock()
		return err
	}
	d.follow(ctx, name)
	d.log.Info("a CSI driver is registered", "driver", name)
	return nil
}

// withdrawing is how long the API may take to forget a driver.
const withdrawing = 10 * time.Second

// Leave forgets a driver.
func (d plugins) Leave(ctx context.Context, name string) {
	d.unfollow(name)
	d.mu.Lock()
	delete(d.registered, name)
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, withdrawing)
	defer cancel()
	if err := d.withdrawDriver(ctx, name); err != nil {
		d.log.Warn("a CSI driver is gone, but its CSINode could not be updated", "driver", name, "error", err)
	}
}
