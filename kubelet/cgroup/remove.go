package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Removals are retried because a killed process takes a moment to leave its cgroup.
const (
	firstRetry = time.Millisecond
	lastRetry  = 50 * time.Millisecond
	patience   = 10 * time.Second // for processes that cannot be killed, such as during a hung disk operation
)

// Remove kills all processes in a pod's cgroup and removes it with everything below it. It needs only the UID, so pods
// from before a restart can be removed too, and succeeds when there is nothing to remove. It tries for ten seconds or
// until the context ends, and then fails with ErrBusy.
func (t *Tree) Remove(ctx context.Context, uid types.UID) error {
	if err := checkUID(uid); err != nil {
		return err
	}
	var dirs []string
	for _, class := range t.classPaths() {
		dirs = append(dirs, t.layout.dirs(filepath.Join(class, podPrefix+string(uid)))...)
	}
	if err := removeAll(ctx, dirs); err != nil {
		return fmt.Errorf("removing the cgroups of pod %s: %w", uid, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.pods[uid]; ok {
		delete(t.pods, uid)
		t.weigh()
	}
	return nil
}

// RemoveAll kills everything that runs in the tree and removes it, together with the parents of the root that become
// empty.
func (t *Tree) RemoveAll(ctx context.Context) error {
	if err := removeAll(ctx, t.layout.dirs(t.root)); err != nil {
		return fmt.Errorf("removing cgroup %s: %w", t.root, err)
	}
	for parent := filepath.Dir(t.root); parent != "/"; parent = filepath.Dir(parent) {
		for _, dir := range t.layout.dirs(parent) {
			_ = rmdir(dir) // fails for those that others use
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.prepared = false
	clear(t.pods)
	return nil
}

// Orphans returns the UIDs, in order, of the pods that have a cgroup but are not live.
func (t *Tree) Orphans(live func(types.UID) bool) ([]types.UID, error) {
	var out []types.UID
	for _, class := range t.classPaths() {
		found, err := t.podsBelow(class)
		if err != nil {
			return nil, fmt.Errorf("looking for pods' cgroups: %w", err)
		}
		for uid := range found {
			if !live(uid) {
				out = append(out, uid)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// podsBelow returns the pods that have a cgroup in a class.
func (t *Tree) podsBelow(class string) (map[types.UID]bool, error) {
	found := map[types.UID]bool{}
	for _, dir := range t.layout.dirs(class) {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, entry := range entries {
			uid, ok := strings.CutPrefix(entry.Name(), podPrefix)
			if ok && uid != "" && entry.IsDir() {
				found[types.UID(uid)] = true
			}
		}
	}
	return found, nil
}

// removeAll removes directories of cgroups and everything below them.
func removeAll(ctx context.Context, dirs []string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		var failed error
		for _, dir := range dirs {
			if err := removeTree(dir); err != nil {
				failed = err
			}
		}
		if failed == nil {
			return nil
		}
		kill(dirs)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %w (%w)", ErrBusy, failed, ctx.Err())
		}
	}
}

// removeTree removes a directory of a cgroup and those below it, children first.
func removeTree(dir string) error {
	entries, _ := os.ReadDir(dir) // if it exists but cannot be read, the removal reports why
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		if err := removeTree(filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	return rmdir(dir)
}

func rmdir(dir string) error {
	// Not os.Remove, which tries to unlink first.
	if err := removeDirectory(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing %s: %w", dir, err)
	}
	return nil
}

func exists(dirs []string) bool {
	for _, dir := range dirs {
		// With v1, a pod may lack a directory in some hierarchies; one is enough.
		if _, err := os.Lstat(dir); err == nil {
			return true
		}
	}
	return false
}
