package csi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/keelson-dev/keelson/internal/atomicfile"
)

// data is what vol_data.json says of a volume, beside where it is staged or published.
type data struct {
	Volume    string `json:"specVolID,omitempty"`
	Handle    string `json:"volumeHandle"`
	Driver    string `json:"driverName"`
	Node      string `json:"nodeName,omitempty"`
	Attached  string `json:"attachmentID,omitempty"`
	Lifecycle string `json:"volumeLifecycleMode,omitempty"`
	// Attachable is "true" if the volume has to be attached.
	Attachable string `json:"attachRequired,omitempty"`
}

// persistent reports whether it is a volume that outlives its pod.
func (d data) persistent() bool { return d.Lifecycle != ephemeral }

// load reads the data in a directory; fs.ErrNotExist if there is none.
func load(dir string) (data, error) {
	var d data
	content, err := os.ReadFile(filepath.Join(dir, dataFile))
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(content, &d); err != nil {
		return d, fmt.Errorf("%s: %w", filepath.Join(dir, dataFile), err)
	}
	return d, nil
}

func (d data) save(dir string) error {
	content, _ := json.Marshal(d) //nolint:errchkjson // strings marshal
	if old, err := os.ReadFile(filepath.Join(dir, dataFile)); err == nil && string(old) == string(content) {
		return nil
	}
	return atomicfile.Write(filepath.Join(dir, dataFile), content, 0o644)
}

// clearAway removes a directory that something was mounted at, and the data beside it. What is still mounted there stays.
func clearAway(parent, at string) error {
	if mounted, err := isMountPoint(filepath.Join(parent, at)); err != nil {
		return err
	} else if mounted {
		return fmt.Errorf("%s is still mounted", filepath.Join(parent, at))
	}
	for _, name := range []string{filepath.Join(parent, at), filepath.Join(parent, dataFile), parent} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// published lists the directories of volumes that pods have, with their data.
func (d *Drivers) published() (map[string]data, error) {
	dirs, err := filepath.Glob(filepath.Join(d.dir, "pods", "*", "volumes", "kubernetes.io~csi", "*"))
	if err != nil {
		return nil, err
	}
	all := map[string]data{}
	for _, dir := range dirs {
		known, err := load(dir)
		switch {
		case err == nil:
			all[dir] = known
		case !errors.Is(err, fs.ErrNotExist):
			d.log.Warn("a volume of a pod is not known", "error", err)
		}
	}
	return all, nil
}
