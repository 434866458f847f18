package dra

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/atomicfile"
)

// claim is a claim that is prepared, or may be: a file has it before a driver is called.
type claim struct {
	Namespace string      `json:"namespace"`
	Name      string      `json:"name"`
	UID       types.UID   `json:"uid"`
	Drivers   []string    `json:"drivers"`
	Pods      []types.UID `json:"pods"`
	Prepared  bool        `json:"prepared,omitempty"`
	// Leaving means that its drivers are told to unprepare it, so that no further pod may use it.
	Leaving bool     `json:"leaving,omitempty"`
	Devices []device `json:"devices,omitempty"`
}

// device is a prepared device.
type device struct {
	Requests []string `json:"requests,omitempty"` // of the claim, that it is for; all if empty
	CDI      []string `json:"cdi,omitempty"`
}

func (c *claim) clone() *claim {
	next := *c
	next.Pods = slices.Clone(c.Pods)
	return &next
}

// with returns the claim with a pod more.
func (c *claim) with(pod types.UID) *claim {
	if slices.Contains(c.Pods, pod) {
		return c
	}
	next := c.clone()
	next.Pods = append(next.Pods, pod)
	return next
}

func (c *claim) path(dir string) string { return filepath.Join(dir, string(c.UID)+".json") }

func (c *claim) save(dir string) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	return atomicfile.Write(c.path(dir), data, 0o600)
}

func (c *claim) remove(dir string) error {
	if err := os.Remove(c.path(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// load returns what earlier processes have left in a directory.
func load(dir string) (map[types.UID]*claim, error) {
	all := map[types.UID]*claim{}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || strings.HasPrefix(name, ".") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		c := &claim{}
		if err := json.Unmarshal(data, c); err != nil || string(c.UID) != name {
			return nil, fmt.Errorf("%s: not the state of a resource claim: drain the node and remove it: %w", path, errors.Join(err, errState))
		}
		all[c.UID] = c
	}
	return all, nil
}

var errState = errors.New("unusable state")
