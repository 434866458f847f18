package plugins

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/keelson-dev/keelson/cni"
	"github.com/keelson-dev/keelson/cni/netns"
)

// Options of a Network. The zero value is ready to use.
type Options struct {
	// BinDirs are searched for executables, in this order; /opt/cni/bin when empty.
	BinDirs []string
	// StateDir is where the Network keeps its state for after a restart; /var/lib/cni/keelson when empty.
	StateDir string
	// Timeout bounds every call, all plugins together; 1 minute when 0.
	Timeout time.Duration
	// Cleanup bounds how long a failed Add may take to undo its work; 10 seconds when 0.
	Cleanup time.Duration
	// NoLoopback leaves the loopback interface of namespaces down.
	NoLoopback bool
	// Logger logs what no error reports; nil discards.
	Logger *slog.Logger
}

// Network is a cni.Network and cni.Collector.
type Network struct {
	options Options
	dir     *directory
	records records
	locks   locks
	log     *slog.Logger
}

// New returns a network according to the configurations in the directory.
func New(confDir string, options Options) *Network {
	if len(options.BinDirs) == 0 {
		options.BinDirs = []string{"/opt/cni/bin"}
	}
	options.StateDir = cmp.Or(options.StateDir, "/var/lib/cni/keelson")
	options.Timeout = cmp.Or(options.Timeout, time.Minute)
	options.Cleanup = cmp.Or(options.Cleanup, 10*time.Second)
	log := options.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Network{
		options: options, log: log,
		dir:     &directory{path: confDir, log: log},
		records: records{dir: filepath.Join(options.StateDir, "attachments"), log: log},
	}
}

// libcni makes a client for one call: a shared one initializes itself in its first call, without synchronization.
func (n *Network) libcni() *libcni.CNIConfig {
	return libcni.NewCNIConfigWithCacheDir(n.options.BinDirs, n.options.StateDir, &executor{log: n.log})
}

// Add attaches a namespace, see cni.Attacher.
func (n *Network) Add(ctx context.Context, a cni.Attachment) (cni.Result, error) {
	if err := a.Validate(); err != nil {
		return cni.Result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, n.options.Timeout)
	defer cancel()
	release, err := n.locks.acquire(ctx, a.Key())
	if err != nil {
		return cni.Result{}, err
	}
	defer release()
	if err := netns.Check(a.NetNS); err != nil {
		return cni.Result{}, fmt.Errorf("%w: %w", cni.ErrInvalid, err)
	}
	c, err := n.ready()
	if err != nil {
		return cni.Result{}, err
	}
	if err := n.makeWay(ctx, a.Key()); err != nil {
		return cni.Result{}, err
	}
	result, err := n.attach(ctx, c, a)
	if err != nil {
		return cni.Result{}, n.takeBack(ctx, c, a, err)
	}
	return result, nil
}

// ready returns the effective configuration, if all its executables exist.
func (n *Network) ready() (Config, error) {
	c, err := n.dir.current()
	if err == nil {
		err = c.missing(n.options.BinDirs)
	}
	return c, err
}

// makeWay fails if the attachment exists, and removes leftovers of a crash or a restart of the host.
func (n *Network) makeWay(ctx context.Context, key cni.Key) error {
	rec, err := n.records.read(key)
	if err != nil || rec == nil {
		return err
	}
	c, err := Parse(rec.File, rec.Config)
	if err != nil {
		return n.records.remove(key)
	}
	if n.complete(c, rec.Attachment) && netns.Check(rec.Attachment.NetNS) == nil {
		return fmt.Errorf("%w: %s", cni.ErrExists, key)
	}
	n.log.Info("What is left of an attachment is taken back before it is made anew", "attachment", key.String())
	return n.detach(ctx, c, rec.Attachment)
}

// complete reports whether all plugins have succeeded: only then libcni caches their result.
func (n *Network) complete(c Config, a cni.Attachment) bool {
	result, err := n.libcni().GetNetworkListCachedResult(c.list, runtimeConf(a))
	return err == nil && result != nil
}

func (n *Network) attach(ctx context.Context, c Config, a cni.Attachment) (cni.Result, error) {
	config, err := c.Bytes()
	if err != nil {
		return cni.Result{}, err
	}
	if err := n.records.write(record{Attachment: a, File: c.File, Config: config}); err != nil {
		return cni.Result{}, fmt.Errorf("noting the attachment: %w", err)
	}
	if len(a.PortMappings) > 0 && !c.Can("portMappings") {
		n.log.Warn("No plugin of the network maps ports", "attachment", a.Key().String(), "pod", a.Pod.Namespace+"/"+a.Pod.Name, "configuration", c.File)
	}
	if !n.options.NoLoopback {
		if err := netns.LoopbackUp(a.NetNS); err != nil {
			return cni.Result{}, err
		}
	}
	result, err := n.libcni().AddNetworkList(ctx, c.list, runtimeConf(a))
	if err != nil {
		return cni.Result{}, fmt.Errorf("network %q: %w", c.Name, err)
	}
	return resultOf(result)
}

// takeBack undoes a failed Add, even if its context has ended.
func (n *Network) takeBack(ctx context.Context, c Config, a cni.Attachment, failed error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.options.Cleanup)
	defer cancel()
	if err := n.detach(ctx, c, a); err != nil {
		n.log.Warn("A failed attachment could not be taken back yet", "attachment", a.Key().String(), "error", err)
	}
	return failed
}

// detach runs the plugins' DEL and removes the record when all have succeeded.
func (n *Network) detach(ctx context.Context, c Config, a cni.Attachment) error {
	if a.NetNS != "" && netns.Check(a.NetNS) != nil {
		a.NetNS = "" // plugins expect that for a namespace that is gone
	}
	if err := n.libcni().DelNetworkList(ctx, c.list, runtimeConf(a)); err != nil {
		return fmt.Errorf("network %q: %w", c.Name, err)
	}
	return n.records.remove(a.Key())
}

// Delete removes an attachment, see cni.Attacher.
func (n *Network) Delete(ctx context.Context, a cni.Attachment) error {
	if err := a.Validate(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, n.options.Timeout)
	defer cancel()
	release, err := n.locks.acquire(ctx, a.Key())
	if err != nil {
		return err
	}
	defer release()
	c, recorded, err := n.recorded(a.Key())
	if err != nil {
		return err
	}
	if recorded != nil {
		return n.detach(ctx, c, *recorded)
	}
	// The record may have been lost: try with the present configuration.
	if c, err = n.ready(); errors.Is(err, cni.ErrNotReady) {
		return nil
	}
	if err != nil {
		return err
	}
	return n.detach(ctx, c, a)
}

// recorded returns the inputs of an attachment, or nil if there is no record.
func (n *Network) recorded(key cni.Key) (Config, *cni.Attachment, error) {
	rec, err := n.records.read(key)
	if err != nil || rec == nil {
		return Config{}, nil, err
	}
	c, err := Parse(rec.File, rec.Config)
	if err != nil {
		n.log.Warn("The record of an attachment has no valid configuration", "attachment", key.String(), "error", err)
		return Config{}, nil, nil
	}
	return c, &rec.Attachment, nil
}

// Check checks an attachment, see cni.Checker.
func (n *Network) Check(ctx context.Context, a cni.Attachment) error {
	if err := a.Validate(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, n.options.Timeout)
	defer cancel()
	release, err := n.locks.acquire(ctx, a.Key())
	if err != nil {
		return err
	}
	defer release()
	c, recorded, err := n.recorded(a.Key())
	if err != nil {
		return err
	}
	if recorded == nil {
		return fmt.Errorf("%w: %s", cni.ErrNotFound, a.Key())
	}
	if !n.complete(c, *recorded) {
		return fmt.Errorf("%w: %s was left half-made", cni.ErrNotFound, a.Key())
	}
	err = n.libcni().CheckNetworkList(ctx, c.list, runtimeConf(*recorded))
	if errors.Is(err, libcni.ErrorCheckNotSupp) {
		return fmt.Errorf("network %q: %w: %w", c.Name, errors.ErrUnsupported, err)
	}
	return err
}

// Status checks that there is a configuration with all its executables, and asks the plugins if its version is 1.1.0 or
// later, see cni.Reporter.
func (n *Network) Status(ctx context.Context) error {
	c, err := n.ready()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, n.options.Timeout)
	defer cancel()
	err = n.libcni().GetStatusNetworkList(ctx, c.list)
	if err != nil && !errors.Is(err, cni.ErrNotReady) {
		err = fmt.Errorf("%w: network %q: %w", cni.ErrNotReady, c.Name, err)
	}
	return err
}

// Config returns the effective configuration, or cni.ErrNoConfig.
func (n *Network) Config() (Config, error) { return n.dir.current() }

// Attachments returns the existing attachments, see cni.Collector.
func (n *Network) Attachments(context.Context) ([]cni.Key, error) { return n.records.list() }

// Collect removes unwanted attachments, see cni.Collector. If the configuration is of version 1.1.0 or later its
// plugins do the same: attachments made by another runtime through the same plugins must be among the live ones.
func (n *Network) Collect(ctx context.Context, live []cni.Key) error {
	keys, err := n.records.list()
	if err != nil {
		return err
	}
	var errs []error
	for _, key := range keys {
		if slices.Contains(live, key) {
			continue
		}
		if err := n.Delete(ctx, cni.Attachment{ContainerID: key.ContainerID, Interface: key.Interface}); err != nil {
			errs = append(errs, fmt.Errorf("attachment %s: %w", key, err))
			continue
		}
		errs = append(errs, n.records.remove(key)) // an unusable record still exists
	}
	return errors.Join(append(errs, n.collectPlugins(ctx, live))...)
}

func (n *Network) collectPlugins(ctx context.Context, live []cni.Key) error {
	c, err := n.ready()
	if err != nil {
		return nil // no plugins to call
	}
	valid := []types.GCAttachment{}
	for _, key := range live {
		valid = append(valid, types.GCAttachment{ContainerID: key.ContainerID, IfName: key.Interface})
	}
	ctx, cancel := context.WithTimeout(ctx, n.options.Timeout)
	defer cancel()
	if err := n.libcni().GCNetworkList(ctx, c.list, &libcni.GCArgs{ValidAttachments: valid}); err != nil {
		return fmt.Errorf("network %q: %w", c.Name, err)
	}
	return nil
}
