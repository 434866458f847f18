package volume

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// makeNested creates the directories in a volume on which containers mount other volumes: the runtime could not do so
// in a read-only volume.
func (v *Volumes) makeNested(pod *corev1.Pod, volume, dir string) error {
	points, err := nestedMountPoints(pod, volume)
	if err != nil {
		return err
	}
	for _, p := range points {
		if err := v.disk.MkdirAll(filepath.Join(dir, filepath.FromSlash(p)), 0o755); err != nil {
			return fmt.Errorf("unable to create nested volume mountpoints: %w", err)
		}
	}
	return nil
}

// nestedMountPoints returns the paths in a volume, relative to it, where containers mount other volumes, without those
// inside another such path.
func nestedMountPoints(pod *corev1.Pod, volume string) ([]string, error) {
	var points []string
	for c := range containers(pod) {
		var all []string
		for _, m := range c.VolumeMounts {
			all = append(all, path.Clean(m.MountPath))
		}
		slices.Sort(all)
		for _, m := range c.VolumeMounts {
			if m.Name != volume {
				continue
			}
			mine := path.Clean(m.MountPath)
			if mine == ".." || strings.HasPrefix(mine, "../") {
				return nil, fmt.Errorf("invalid container mount point %v", mine)
			}
			points = append(points, below(mine, all)...)
		}
	}
	return points, nil
}

// below returns the paths under dir, relative to it, without those under another of them.
func below(dir string, all []string) []string {
	var out, outer []string
	for _, p := range all {
		if !strings.HasPrefix(p, dir+"/") {
			continue
		}
		if slices.ContainsFunc(outer, func(o string) bool { return strings.HasPrefix(p, o) }) {
			continue
		}
		outer = append(outer, p+"/")
		out = append(out, p[len(dir)+1:])
	}
	return out
}
