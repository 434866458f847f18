package garbage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/keelson-dev/keelson/cri"
)

// Reasons for removing images, as metrics count them.
const (
	forAge   = "age"
	forSpace = "space"
)

// CollectImages removes images that are too old and, if their filesystem is too full, others until enough is free. It
// fails if that is not enough.
func (c *Collector) CollectImages(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if err := c.detect(ctx, now); err != nil {
		return err
	}
	if _, err := c.remove(ctx, c.inventory.Old(*c.options.Images, now), math.MaxUint64, forAge); err != nil {
		return fmt.Errorf("wanted to free images older than %v, encountered errors in image deletion: %w", c.options.Images.MaxAge, err)
	}
	if c.options.Filesystem == nil {
		return nil
	}
	images, _, err := c.options.Filesystem.ImageFilesystem(ctx)
	if err != nil {
		return fmt.Errorf("asking where images are: %w", err)
	}
	disk, err := c.options.Disk(images.Mountpoint)
	if err != nil {
		return err
	}
	if disk.Capacity == 0 {
		err := errors.New("invalid capacity 0 on image filesystem")
		c.event("InvalidDiskCapacity", err.Error())
		return err
	}
	full, percent, want := c.options.Images.Full(disk.Capacity, disk.Available)
	if !full {
		return nil
	}
	c.log.Info("the filesystem of images is too full", "percent", percent, "high", c.options.Images.High, "free", want)
	freed, err := c.remove(ctx, c.inventory.Free(*c.options.Images, now), want, forSpace)
	if err != nil {
		return fmt.Errorf("wanted to free %d bytes, but freed %d bytes space with errors in image deletion: %w", want, freed, err)
	}
	if freed < want {
		err := fmt.Errorf("Insufficient free disk space on the node's image filesystem (%d%% of %s used). "+ //nolint:staticcheck // upstream's words, for people
			"Failed to free sufficient space by deleting unused images (freed %d bytes). "+
			"Investigate disk usage, as it could be used by active images, logs, volumes, or other data.",
			percent, size(disk.Capacity), freed)
		c.event("FreeDiskSpaceFailed", err.Error())
		return err
	}
	return nil
}

// ReclaimImages removes every image that is not used and not too young. It implements
// eviction.Reclaimer.
func (c *Collector) ReclaimImages(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if err := c.detect(ctx, now); err != nil {
		return err
	}
	_, err := c.remove(ctx, c.inventory.Free(*c.options.Images, now), math.MaxUint64, forSpace)
	return err
}

// detect updates the inventory.
func (c *Collector) detect(ctx context.Context, now time.Time) error {
	images, err := c.runtime.ListImages(ctx)
	if err != nil {
		return fmt.Errorf("listing images: %w", err)
	}
	// Listed after the images, so that an image pulled in between does not count as unused.
	containers, err := c.runtime.ListContainers(ctx, cri.Filter{})
	if err != nil {
		return fmt.Errorf("listing containers: %w", err)
	}
	used := map[string]bool{}
	for _, container := range containers {
		for _, name := range []string{container.ImageID, container.ImageRef, container.Image.Image} {
			if name != "" {
				used[name] = true
			}
		}
	}
	for _, name := range c.options.ImageUses() {
		image, err := c.runtime.ImageStatus(ctx, cri.ImageSpec{Image: name})
		switch {
		case err == nil:
			used[image.ID] = true
		case !errors.Is(err, cri.ErrNotFound):
			return fmt.Errorf("looking for image %s: %w", name, err)
		}
	}
	c.inventory.Detect(images, func(image cri.Image) bool { return isUsed(image, used) }, now)
	return nil
}

func isUsed(image cri.Image, used map[string]bool) bool {
	if used[image.ID] {
		return true
	}
	for _, names := range [][]string{image.Tags, image.Digests} {
		for _, name := range names {
			if used[name] {
				return true
			}
		}
	}
	return false
}

// remove removes images until the wanted number of bytes is freed, and returns the number freed.
func (c *Collector) remove(ctx context.Context, images []cri.Image, want uint64, reason string) (freed uint64, err error) {
	var failures []error
	for _, image := range images {
		if freed >= want {
			break
		}
		c.log.Info("removing an image", "id", image.ID, "tags", image.Tags, "size", image.Size, "reason", reason)
		if err := c.runtime.RemoveImage(ctx, cri.ImageSpec{Image: image.ID}); err != nil {
			failures = append(failures, fmt.Errorf("removing image %s: %w", image.ID, err))
			continue
		}
		c.inventory.Forget(image.ID)
		c.options.Collected(reason)
		freed += image.Size
	}
	return freed, errors.Join(failures...)
}

// size formats a number of bytes for people.
func size(bytes uint64) string {
	if bytes < 1024 {
		return fmt.Sprintf("%d B", bytes)
	}
	value, unit := float64(bytes)/1024, 0
	for value >= 1024 && unit < 3 {
		value /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %s", value, []string{"KiB", "MiB", "GiB", "TiB"}[unit])
}
