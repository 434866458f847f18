package garbage

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri"
)

// collectLogs removes the log directories of pods that are gone.
func (c *Collector) collectLogs(gone func(types.UID) bool) error {
	if !c.pods.Known() {
		return nil
	}
	entries, err := os.ReadDir(c.options.LogDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nor is there one without a name
	}
	if err != nil {
		return err
	}
	var failures []error
	for _, entry := range entries {
		// NAMESPACE_NAME_UID; neither namespaces nor names contain underscores. Anything else is not ours.
		parts := strings.Split(entry.Name(), "_")
		if !entry.IsDir() || len(parts) != 3 || parts[2] == "" || !gone(types.UID(parts[2])) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(c.options.LogDir, entry.Name())); err != nil {
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

// collectLinks removes dangling links to logs, POD_NAMESPACE_CONTAINER-ID.log. The log of a running container is
// missing for a moment when it is rotated.
func (c *Collector) collectLinks(containers []cri.Container) error {
	if c.options.LinkDir == "" {
		return nil
	}
	links, err := filepath.Glob(filepath.Join(c.options.LinkDir, "*.log"))
	if err != nil {
		return err
	}
	state := map[string]cri.ContainerState{}
	for _, container := range containers {
		state[container.ID] = container.State
	}
	var failures []error
	for _, link := range links {
		if _, err := os.Stat(link); !errors.Is(err, fs.ErrNotExist) {
			continue // not a dangling link
		}
		name := strings.TrimSuffix(filepath.Base(link), ".log")
		id := name[strings.LastIndex(name, "-")+1:]
		if s, ok := state[id]; ok && s != cri.ContainerExited {
			continue
		}
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}
