package garbage

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/keelson-dev/keelson/cri"
)

// ImagePolicy says which images are kept.
type ImagePolicy struct {
	// High is how full, in percent, the images' filesystem must be for images to be removed, and Low how full it may be
	// afterwards.
	High, Low int
	// MinAge is the minimum time for which an image is kept after it was first seen. MaxAge is the maximum time for
	// which an unused one is kept; 0 means forever.
	MinAge, MaxAge time.Duration
}

// ErrPolicy means that a policy is invalid.
var ErrPolicy = errors.New("invalid garbage collection policy")

func (p ImagePolicy) check() error {
	switch {
	case p.High < 0 || p.High > 100:
		return fmt.Errorf("%w: invalid HighThresholdPercent %d, must be in range [0-100]", ErrPolicy, p.High)
	case p.Low < 0 || p.Low > 100:
		return fmt.Errorf("%w: invalid LowThresholdPercent %d, must be in range [0-100]", ErrPolicy, p.Low)
	case p.Low > p.High:
		return fmt.Errorf("%w: LowThresholdPercent %d can not be higher than HighThresholdPercent %d", ErrPolicy, p.Low, p.High)
	case p.MinAge < 0 || p.MaxAge < 0:
		return fmt.Errorf("%w: ages cannot be negative", ErrPolicy)
	}
	return nil
}

// Full reports whether a filesystem, with its capacity and available space in bytes, is too full, how full it is in
// percent, and how many bytes to free.
func (p ImagePolicy) Full(capacity, available uint64) (full bool, percent int, free uint64) {
	available = min(available, capacity)
	if capacity == 0 {
		return false, 0, 0
	}
	percent = 100 - int(available*100/capacity)
	if percent < p.High {
		return false, percent, 0
	}
	want := capacity * uint64(100-p.Low) / 100
	return true, percent, want - min(want, available)
}

// Inventory remembers when images were seen and used. The zero value is empty.
type Inventory struct {
	records map[string]*record
	start   time.Time
}

type record struct {
	image     cri.Image
	firstSeen time.Time
	lastUsed  time.Time // zero if it was never seen in use
	inUse     bool
}

// Detect records which images exist and which are used.
func (v *Inventory) Detect(images []cri.Image, used func(cri.Image) bool, now time.Time) {
	if v.start.IsZero() {
		v.start = now
	}
	next := make(map[string]*record, len(images))
	for _, image := range images {
		r := v.records[image.ID]
		if r == nil {
			r = &record{firstSeen: now}
		}
		r.image = image
		if r.inUse = used(image); r.inUse {
			r.lastUsed = now
		}
		next[image.ID] = r
	}
	v.records = next
}

// unused returns the images that could be removed, the least recently used first.
func (v *Inventory) unused() []*record {
	var out []*record
	for _, r := range v.records {
		if !r.inUse && !r.image.Pinned {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *record) int {
		return cmp.Or(a.lastUsed.Compare(b.lastUsed), a.firstSeen.Compare(b.firstSeen), cmp.Compare(a.image.ID, b.image.ID))
	})
	return out
}

// Old returns the images that have been unused for longer than the policy allows. There are none until that time has
// passed since the first Detect.
func (v *Inventory) Old(p ImagePolicy, now time.Time) []cri.Image {
	if p.MaxAge == 0 || now.Sub(v.start) <= p.MaxAge {
		return nil
	}
	var out []cri.Image
	for _, r := range v.unused() {
		if now.Sub(r.lastUsed) > p.MaxAge {
			out = append(out, r.image)
		}
	}
	return out
}

// Free returns all images that may be removed to free space, in the order in which to remove them.
func (v *Inventory) Free(p ImagePolicy, now time.Time) []cri.Image {
	var out []cri.Image
	for _, r := range v.unused() {
		if now.Sub(r.firstSeen) >= p.MinAge {
			out = append(out, r.image)
		}
	}
	return out
}

// Forget drops an image that was removed.
func (v *Inventory) Forget(id string) { delete(v.records, id) }
