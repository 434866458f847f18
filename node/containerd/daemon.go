package containerd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/keelson-dev/keelson/internal/atomicfile"
	"github.com/keelson-dev/keelson/internal/pause"
	"github.com/keelson-dev/keelson/node/filelock"
	"github.com/keelson-dev/keelson/node/nodetools"
)

// Options are what may differ between nodes. The zero value suits one node without mirrors.
type Options struct {
	// CNIBinDirs are searched for CNI plugins; empty means those of the tools.
	CNIBinDirs []string
	// CNIConfDir is where the network's configuration is; empty means net.d in the daemon's directory. The daemon
	// notices changes while it runs. Without a configuration, pods with the host's network work.
	CNIConfDir string
	// CDISpecDirs are where the specifications of devices are that are requested by CDI names; nil means /etc/cdi and
	// /var/run/cdi.
	CDISpecDirs []string
	// SandboxImage is the image of pod sandboxes; empty means upstream's pause image of this containerd.
	SandboxImage string
	// Mirrors are URLs tried before a registry, by the registry's host, in order; those of "_default" apply to every
	// registry without an entry of its own. Changes take effect at the next Start, even if the daemon is already
	// running.
	Mirrors map[string][]string
	// Handlers are handlers of runtime classes besides "runc", by name. The default is "runc".
	Handlers map[string]Handler
	// LogLevel is containerd's log level: trace to panic; empty means info.
	LogLevel string
	// RunDir is the parent of the daemon's directory for what does not survive a reboot; empty means /run/keelson. At
	// most 29 bytes.
	RunDir string
	// CgroupRoot, unless empty, is the cgroup below which the daemon's users put all pods of this node, and no others:
	// Destroy removes it with everything in it.
	CgroupRoot string
	// NoSync leaves syncing the database of containers and images to the kernel, which cuts the time to create a
	// container to a third. Nothing is lost when the daemon is killed. After a power failure images may have to be
	// imported again: Start then makes the daemon start without them.
	NoSync bool
	// Logger logs what happens to the daemon; nil discards.
	Logger *slog.Logger
}

// Handler is how the containers of a runtime class are run.
type Handler struct {
	// Binary is the path of an OCI runtime with runc's command line, such as crun; empty is the runc of the tools.
	Binary string
	// Annotations are those of pods that the runtime sees, as patterns such as "example.com/*"; empty means none.
	Annotations []string
}

// upstreamPause is the default sandbox image of this version of containerd.
const upstreamPause = "registry.k8s.io/pause:3.10.2"

// Daemon is the containerd of one directory, running or not.
type Daemon struct {
	paths   paths
	tools   nodetools.Tools
	options Options
	log     *slog.Logger
}

// record is the persistent state of a started daemon.
type record struct {
	Run     string  // the directory below /run
	Process process // zero when it was not left running
	Config  string  // hash of the configuration it runs with
	Cgroup  string  // the option CgroupRoot, for Destroy without it
}

// New returns the daemon of a directory, which need not exist. It starts nothing. It fails with ErrConfig.
func New(dir string, tools nodetools.Tools, o Options) (*Daemon, error) {
	if dir == "" {
		return nil, fmt.Errorf("%w: no directory", ErrConfig)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if strings.ContainsAny(dir, ":,\\") || strings.ContainsFunc(dir, unicode.IsControl) {
		return nil, fmt.Errorf("%w: overlayfs cannot take a directory with a colon, comma, backslash or control character: %q", ErrConfig, dir)
	}
	if o.RunDir == "" {
		o.RunDir = defaultRunDir
	}
	if o.SandboxImage == "" {
		o.SandboxImage = upstreamPause
	}
	if len(o.RunDir) > 29 || !filepath.IsAbs(o.RunDir) {
		return nil, fmt.Errorf("%w: %q is not an absolute path of at most 29 bytes", ErrConfig, o.RunDir)
	}
	if o.CgroupRoot = strings.Trim(o.CgroupRoot, "/"); o.CgroupRoot == "." || strings.Contains(o.CgroupRoot, "..") {
		return nil, fmt.Errorf("%w: cgroup %q", ErrConfig, o.CgroupRoot)
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	d := &Daemon{paths{dir, runFor(o.RunDir, dir)}, tools, o, log.With("containerd", dir)}
	r, err := d.load()
	if err != nil {
		return nil, err
	}
	d.paths.run = r.Run // as at its start, whatever the options are now
	if o.CgroupRoot == "" {
		d.options.CgroupRoot = r.Cgroup
	}
	return d, nil
}

// Socket is the path of the socket that serves CRI and containerd's own API.
func (d *Daemon) Socket() string { return d.paths.socket() }

// LogFile is the daemon's log.
func (d *Daemon) LogFile() string { return d.paths.log() }

// SandboxSeccomp is the file of a seccomp profile for sandboxes, for CRI's Localhost profile; it exists after Start. It
// is stricter than RuntimeDefault, and with it a sandbox starts in two thirds to four fifths of the time.
func (d *Daemon) SandboxSeccomp() string { return d.paths.sandbox() }

// CgroupRoot is the option with a leading slash, or empty: the parent of pods' cgroups.
func (d *Daemon) CgroupRoot() string {
	if d.options.CgroupRoot == "" {
		return ""
	}
	return "/" + d.options.CgroupRoot
}

// PID is the daemon's process ID, or 0 if none runs.
func (d *Daemon) PID() int {
	r, err := d.load()
	if err != nil || !r.Process.alive() {
		return 0
	}
	return r.Process.PID
}

// Start returns when the daemon answers CRI. A running daemon is used as it is, but replaced if it was started with
// another configuration or does not answer; its containers keep running.
func (d *Daemon) Start(ctx context.Context) error {
	unlock, err := d.exclude(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return d.start(ctx)
}

func (d *Daemon) start(ctx context.Context) error {
	r, err := d.running()
	if err != nil {
		return err
	}
	text := settings{d.paths, d.tools, d.options, !mayLowerOOM()}.toml()
	sum := sha256.Sum256([]byte(text))
	config := hex.EncodeToString(sum[:])
	if err := d.writeHosts(); err != nil {
		return err
	}
	if err := d.writeProfile(); err != nil {
		return err
	}
	if r.Process.alive() {
		switch err := d.ready(ctx, r.Process, 5*time.Second); {
		case err == nil && r.Config == config:
			d.log.Debug("containerd runs already", "pid", r.Process.PID)
			return nil
		case ctx.Err() != nil:
			return err
		case err != nil:
			d.log.Warn("containerd does not answer and is replaced", "pid", r.Process.PID, "err", err)
		default:
			d.log.Info("containerd is restarted with another configuration", "pid", r.Process.PID)
		}
		if err := d.end(ctx, r); err != nil {
			return err
		}
	}
	if err := d.prepare(text); err != nil {
		return err
	}
	err = d.bring(ctx, config)
	if errors.Is(err, errEnded) && d.options.NoSync && r.Process.otherBoot() {
		// After a power failure, unsynced data is useless, and no container is running.
		d.log.Warn("containerd's files did not survive the end of the host, and are created anew without images", "err", err)
		if err := os.RemoveAll(d.paths.root()); err != nil {
			return fmt.Errorf("remove containerd's files: %w", err)
		}
		if err := d.prepare(text); err != nil {
			return err
		}
		err = d.bring(ctx, config)
	}
	return err
}

// bring launches the daemon and waits until it answers.
func (d *Daemon) bring(ctx context.Context, config string) error {
	p, err := d.launch()
	if err != nil {
		return err
	}
	if err := d.store(record{Run: d.paths.run, Process: p, Config: config, Cgroup: d.options.CgroupRoot}); err != nil {
		return errors.Join(err, p.kill())
	}
	if err := d.ready(ctx, p, time.Minute); err != nil {
		return fmt.Errorf("%w\n%s", err, logTail(d.paths.log()))
	}
	d.log.Info("containerd started", "pid", p.PID)
	return nil
}

// Stop ends the daemon; containers and their shims keep running. It is no error if none runs.
func (d *Daemon) Stop(ctx context.Context) error {
	unlock, err := d.exclude(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	r, err := d.running()
	if err != nil {
		return err
	}
	return d.end(ctx, r)
}

// Kill ends the daemon like kill -9 and returns when it is gone.
func (d *Daemon) Kill(ctx context.Context) error {
	r, err := d.running()
	if err != nil || !r.Process.alive() {
		return err
	}
	if err := r.Process.kill(); err != nil {
		return err
	}
	return r.Process.wait(ctx)
}

// Run starts the daemon, restarts it whenever it ends, and returns nil when the context ends, with the daemon still
// running. Failures to start are logged and retried with growing delays.
func (d *Daemon) Run(ctx context.Context) error {
	const least, most = 100 * time.Millisecond, 10 * time.Second
	for delay := least; ctx.Err() == nil; {
		err := d.Start(ctx)
		if err == nil {
			delay = least
			if r, err := d.load(); err == nil {
				if r.Process.wait(ctx) == nil {
					d.log.Warn("containerd ended and is started again", "pid", r.Process.PID)
				}
			}
		} else if ctx.Err() == nil {
			d.log.Error("containerd does not start", "err", err, "again", delay)
		}
		_ = pause.For(ctx, delay) // the loop checks the context
		delay = min(2*delay, most)
	}
	return nil
}

// end stops the process of r, by force if that takes too long.
func (d *Daemon) end(ctx context.Context, r record) error {
	if !r.Process.alive() {
		return nil
	}
	if err := r.Process.terminate(); err != nil {
		return err
	}
	polite, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := r.Process.wait(polite); err == nil || ctx.Err() != nil {
		return err
	}
	if err := r.Process.kill(); err != nil {
		return err
	}
	return r.Process.wait(ctx)
}

// exclude keeps other processes from starting or stopping anything in the directory.
func (d *Daemon) exclude(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(d.paths.dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the directory of containerd: %w", err)
	}
	return filelock.Take(ctx, d.paths.lock(), nil)
}

// load reads the record of a daemon left running. Its RunDir takes precedence.
func (d *Daemon) load() (record, error) {
	b, err := os.ReadFile(d.paths.record())
	none := record{Run: d.paths.run}
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return record{}, fmt.Errorf("read which containerd runs: %w", err)
	}
	var r record
	if json.Unmarshal(b, &r) != nil || r.Run == "" {
		return none, nil //nolint:nilerr // torn by a crash: counts as missing
	}
	return r, nil
}

// running is load, but looks for the daemon by its command line if the recorded process does not run: the record may
// have been lost.
func (d *Daemon) running() (record, error) {
	r, err := d.load()
	if err != nil || r.Process.alive() {
		return r, err
	}
	found, err := d.daemons()
	if err != nil || len(found) == 0 {
		return r, err
	}
	r.Process, r.Config = found[0], ""
	return r, nil
}

func (d *Daemon) store(r record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode which containerd runs: %w", err)
	}
	return atomicfile.Write(d.paths.record(), b, 0o644)
}

// prepare makes the directories and the configuration.
func (d *Daemon) prepare(config string) error {
	if err := mountRun(d.paths.run); err != nil {
		return err
	}
	for _, dir := range []string{d.paths.root(), d.paths.state(), d.paths.shimSockets(), d.paths.runc(), settings{paths: d.paths, options: d.options}.cniConfDir()} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return fmt.Errorf("make a directory of containerd: %w", err)
		}
	}
	return atomicfile.Write(d.paths.config(), []byte(config), 0o644)
}

// writeHosts updates certs.d to Mirrors.
func (d *Daemon) writeHosts() error {
	for registry, mirrors := range d.options.Mirrors {
		dir := filepath.Join(d.paths.registries(), registry)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make the directory of a registry: %w", err)
		}
		if err := atomicfile.Write(filepath.Join(dir, "hosts.toml"), []byte(hosts(mirrors)), 0o644); err != nil {
			return err
		}
	}
	have, err := os.ReadDir(d.paths.registries())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list the registries: %w", err)
	}
	for _, e := range have {
		if _, wanted := d.options.Mirrors[e.Name()]; !wanted {
			if err := os.RemoveAll(filepath.Join(d.paths.registries(), e.Name())); err != nil {
				return fmt.Errorf("forget a registry: %w", err)
			}
		}
	}
	return nil
}

func (d *Daemon) writeProfile() error {
	b, err := sandboxProfile()
	if err != nil {
		return fmt.Errorf("encode the profile of sandboxes: %w", err)
	}
	return atomicfile.Write(d.paths.sandbox(), b, 0o644)
}

// logTail returns the end of the daemon's log, for messages.
func logTail(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return "its log cannot be read: " + err.Error()
	}
	const most = 2000
	if len(b) > most {
		b = b[len(b)-most:]
	}
	return "the end of " + path + ":\n" + string(b)
}
