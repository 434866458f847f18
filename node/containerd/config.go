package containerd

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/keelson-dev/keelson/node/nodetools"
)

// settings are the inputs of a daemon's configuration.
type settings struct {
	paths   paths
	tools   nodetools.Tools
	options Options
	// restrictOOM: the host does not allow lower OOM scores.
	restrictOOM bool
}

// unneeded are plugins that no node here uses; each would cost memory, start-up time or a call per container.
func unneeded() []string {
	return []string{
		"io.containerd.nri.v1.nri",
		"io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs", "io.containerd.snapshotter.v1.native",
		"io.containerd.differ.v1.erofs", "io.containerd.mount-handler.v1.erofs",
		"io.containerd.image-verifier.v1.bindir",
		"io.containerd.internal.v1.opt",
		"io.containerd.monitor.container.v1.restart",
		"io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp",
	}
}

// toml is the daemon's configuration file.
func (s settings) toml() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p, o := s.paths, s.options
	line("version = 4")
	line("root = %s", quote(p.root()))
	line("state = %s", quote(p.state()))
	line("imports = []")
	line("disabled_plugins = %s", list(unneeded()))
	line("required_plugins = ['io.containerd.grpc.v1.cri', 'io.containerd.snapshotter.v1.overlayfs']")
	line("[debug]\n  level = %s", quote(o.LogLevel))
	line("[plugins.'io.containerd.server.v1.grpc']\n  address = %s", quote(p.socket()))
	line("[plugins.'io.containerd.server.v1.ttrpc']\n  address = %s", quote(p.socket()+".ttrpc"))
	line("[plugins.'io.containerd.shim.v1.manager']\n  socket_dir = %s", quote(p.shimSockets()))
	line("[plugins.'io.containerd.metadata.v1.bolt']\n  no_sync = %t", o.NoSync)
	line("[plugins.'io.containerd.grpc.v1.cri']\n  disable_tcp_service = true\n  stream_server_address = '127.0.0.1'\n  stream_server_port = '0'")
	line("[plugins.'io.containerd.cri.v1.images']\n  snapshotter = 'overlayfs'")
	line("[plugins.'io.containerd.cri.v1.images'.pinned_images]\n  sandbox = %s", quote(o.SandboxImage))
	line("[plugins.'io.containerd.cri.v1.images'.registry]\n  config_path = %s", quote(p.registries()))
	line("[plugins.'io.containerd.transfer.v1.local']\n  config_path = %s", quote(p.registries()))
	line("[plugins.'io.containerd.cri.v1.runtime']")
	line("  restrict_oom_score_adj = %t", s.restrictOOM)
	line("  netns_mounts_under_state_dir = true")
	line("  enable_unprivileged_ports = true")
	line("  enable_unprivileged_icmp = true")
	line("  cdi_spec_dirs = %s", list(s.cdiSpecDirs()))
	line("  enable_criu = false")
	line("  stats_collect_period = '10s'") // every second by default, which asks every shim of the node
	line("[plugins.'io.containerd.cri.v1.runtime'.cni]")
	line("  bin_dirs = %s\n  conf_dir = %s\n  max_conf_num = 1", list(s.cniBinDirs()), quote(s.cniConfDir()))
	line("  use_internal_loopback = true")
	line("[plugins.'io.containerd.cri.v1.runtime'.containerd]\n  default_runtime_name = 'runc'")
	runtime := func(name string, h Handler) {
		at := "plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes." + quote(name)
		line("[%s]\n  runtime_type = 'io.containerd.runc.v2'\n  runtime_path = %s\n  sandboxer = 'podsandbox'", at, quote(s.tools.Shim))
		if len(h.Annotations) > 0 {
			line("  pod_annotations = %s", list(h.Annotations))
		}
		line("[%s.options]\n  BinaryName = %s\n  Root = %s\n  SystemdCgroup = false", at, quote(cmp.Or(h.Binary, s.tools.Runc)), quote(p.runc()))
	}
	runtime("runc", Handler{})
	for _, name := range slices.Sorted(maps.Keys(o.Handlers)) {
		runtime(name, o.Handlers[name])
	}
	return b.String()
}

// cdiSpecDirs are upstream's default unless the options say otherwise.
func (s settings) cdiSpecDirs() []string {
	if s.options.CDISpecDirs != nil {
		return s.options.CDISpecDirs
	}
	return []string{"/etc/cdi", "/var/run/cdi"}
}

func (s settings) cniBinDirs() []string {
	if len(s.options.CNIBinDirs) > 0 {
		return s.options.CNIBinDirs
	}
	return []string{s.tools.CNI}
}

func (s settings) cniConfDir() string {
	if s.options.CNIConfDir != "" {
		return s.options.CNIConfDir
	}
	return filepath.Join(s.paths.dir, "net.d")
}

// hosts is the hosts.toml of a registry with mirrors: containerd tries them in order and then the registry itself.
func hosts(mirrors []string) string {
	var b strings.Builder
	for _, m := range mirrors {
		fmt.Fprintf(&b, "[host.%s]\n  capabilities = [\"pull\", \"resolve\"]\n", quote(m))
	}
	return b.String()
}

func (o Options) check() error {
	for registry, mirrors := range o.Mirrors {
		if registry == "" || strings.HasPrefix(registry, ".") || strings.ContainsAny(registry, "/\\") || strings.ContainsFunc(registry, unicode.IsControl) {
			return fmt.Errorf("%w: %q names no registry", ErrConfig, registry)
		}
		for _, m := range mirrors {
			u, err := url.Parse(m)
			if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
				return fmt.Errorf("%w: mirror %q is not an http or https URL", ErrConfig, m)
			}
		}
	}
	for name, h := range o.Handlers {
		if name == "" || name == "runc" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return fmt.Errorf("%w: %q is no name for another handler", ErrConfig, name)
		}
		if h.Binary != "" && !filepath.IsAbs(h.Binary) || strings.ContainsFunc(h.Binary+strings.Join(h.Annotations, ""), unicode.IsControl) {
			return fmt.Errorf("%w: the handler %q: %q is no path", ErrConfig, name, h.Binary)
		}
	}
	if levels := []string{"", "trace", "debug", "info", "warn", "error", "fatal", "panic"}; !slices.Contains(levels, o.LogLevel) {
		return fmt.Errorf("%w: log level %q is not one of %s", ErrConfig, o.LogLevel, strings.Join(levels[1:], ", "))
	}
	for _, text := range append(slices.Concat(o.CNIBinDirs, slices.Collect(maps.Keys(o.Mirrors))), o.CNIConfDir, o.SandboxImage, o.RunDir, o.CgroupRoot) {
		if strings.ContainsFunc(text, unicode.IsControl) {
			return fmt.Errorf("%w: control characters in %q", ErrConfig, text)
		}
	}
	return nil
}

// quote returns a basic string of TOML, for text without control characters.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

func list(all []string) string {
	var quoted []string
	for _, s := range all {
		quoted = append(quoted, quote(s))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
