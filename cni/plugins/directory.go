package plugins

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/containernetworking/cni/libcni"

	"github.com/keelson-dev/keelson/cni"
)

// Load returns the directory's effective configuration, and the errors of files before it. If there is none it fails
// with cni.ErrNoConfig and all errors.
func Load(dir string) (c Config, skipped []error, err error) {
	files, err := os.ReadDir(dir) // in lexical order
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Config{}, nil, fmt.Errorf("%w: %w", cni.ErrNoConfig, err)
	}
	for _, f := range files {
		if ext := filepath.Ext(f.Name()); f.IsDir() || ext != ".conflist" && ext != ".conf" && ext != ".json" {
			continue
		}
		c, err := read(filepath.Join(dir, f.Name()))
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed meanwhile
		case err != nil:
			skipped = append(skipped, err)
		default:
			return c, skipped, nil
		}
	}
	if len(skipped) > 0 {
		return Config{}, skipped, fmt.Errorf("%w: %w", cni.ErrNoConfig, errors.Join(skipped...))
	}
	return Config{}, nil, fmt.Errorf("%w: no *.conflist, *.conf or *.json in %s: a network puts its configuration there", cni.ErrNoConfig, dir)
}

// directory reads the configurations of a directory. Reading one takes a fraction of a millisecond, starting a plugin
// several: a cache would gain nothing.
type directory struct {
	path string
	log  *slog.Logger

	mu     sync.Mutex
	warned []string
}

// current returns the effective configuration. Errors in other files are logged once.
func (d *directory) current() (Config, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, skipped, err := Load(d.path)
	var texts []string
	for _, s := range skipped {
		texts = append(texts, s.Error())
		if err == nil && !slices.Contains(d.warned, s.Error()) {
			d.log.Warn("A network configuration is passed over", "error", s, "used", c.File)
		}
	}
	d.warned = texts
	return c, err
}

func read(file string) (Config, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return Config{}, err
	}
	c, err := Parse(file, data)
	if err != nil {
		return Config{}, err
	}
	if !c.list.LoadOnlyInlinedPlugins {
		if c, err = c.addFiles(filepath.Join(filepath.Dir(file), c.Name)); err != nil {
			return Config{}, err
		}
	}
	if len(c.Plugins) == 0 {
		return Config{}, &cni.ConfigError{File: file, Field: "plugins", Reason: "names no plugin"}
	}
	return c, nil
}

// addFiles adds the plugins from their own files in a directory named after the network.
func (c Config) addFiles(dir string) (Config, error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	more, err := libcni.NetworkPluginConfsFromFiles(filepath.Dir(dir), c.Name)
	if err != nil {
		return Config{}, &cni.ConfigError{File: dir, Reason: err.Error()}
	}
	c.list.Plugins = append(c.list.Plugins, more...)
	return configOf(c.File, c.list)
}

// missing names the plugins without an executable.
func (c Config) missing(bins []string) error {
	for i, p := range c.Plugins {
		for field, name := range map[string]string{"type": p.Type, "ipam.type": p.IPAM} {
			if name != "" && executable(name, bins) == "" {
				return fmt.Errorf("%w: %w", cni.ErrNotReady, &cni.ConfigError{
					File: c.File, Field: fmt.Sprintf("plugins[%d].%s", i, field),
					Reason: fmt.Sprintf("no executable %q in %s: install the plugin there", name, strings.Join(bins, ", ")),
				})
			}
		}
	}
	return nil
}

// executable is the path of a plugin, or empty.
func executable(name string, bins []string) string {
	for _, dir := range bins {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}
