package eviction

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/internal/boundedquantity"
)

// Signal names something that can run short.
type Signal string

// The signals.
const (
	MemoryAvailable       Signal = "memory.available"
	AllocatableMemory     Signal = "allocatableMemory.available" // what all pods together may use
	NodeFsAvailable       Signal = "nodefs.available"
	NodeFsInodesFree      Signal = "nodefs.inodesFree"
	ImageFsAvailable      Signal = "imagefs.available"
	ImageFsInodesFree     Signal = "imagefs.inodesFree"
	ContainerFsAvailable  Signal = "containerfs.available"
	ContainerFsInodesFree Signal = "containerfs.inodesFree"
	PIDAvailable          Signal = "pid.available"
)

// Resources that the API does not have.
const (
	inodes corev1.ResourceName = "inodes"
	pids   corev1.ResourceName = "pids"
)

// resource returns the resource that the signal is about; empty for an unknown signal.
func (s Signal) resource() corev1.ResourceName {
	switch s {
	case MemoryAvailable, AllocatableMemory:
		return corev1.ResourceMemory
	case NodeFsAvailable, ImageFsAvailable, ContainerFsAvailable:
		return corev1.ResourceEphemeralStorage
	case NodeFsInodesFree, ImageFsInodesFree, ContainerFsInodesFree:
		return inodes
	case PIDAvailable:
		return pids
	default:
		return ""
	}
}

func (s Signal) condition() corev1.NodeConditionType {
	switch s.resource() {
	case corev1.ResourceMemory:
		return corev1.NodeMemoryPressure
	case pids:
		return corev1.NodePIDPressure
	default:
		return corev1.NodeDiskPressure
	}
}

// Value is an amount, or, if Share is set, a share of the capacity between 0 and 1.
type Value struct {
	Quantity resource.Quantity
	Share    float32 // of the capacity; if 0, Quantity counts
}

func (v Value) of(capacity resource.Quantity) resource.Quantity {
	if v.Share == 0 {
		return v.Quantity.DeepCopy()
	}
	return *resource.NewQuantity(int64(float64(capacity.Value())*float64(v.Share)), resource.BinarySI)
}

// Threshold is a limit on a signal, below which the node acts.
type Threshold struct {
	Signal Signal
	// Value is the least that must be available.
	Value Value
	// GracePeriod is how long less may be available; 0 makes a hard threshold.
	GracePeriod time.Duration
	// MinReclaim is how much more than Value must be available before the shortage is over.
	MinReclaim Value
}

// key identifies a threshold.
func (t Threshold) key() string {
	return fmt.Sprintf("%s<%s|%v %s", t.Signal, t.Value.Quantity.String(), t.Value.Share, t.GracePeriod)
}

// Config holds thresholds in the form of a kubelet's configuration, by the names of signals.
type Config struct {
	// Hard and Soft are amounts such as "100Mi" or shares such as "10%"; soft ones need a
	// SoftGracePeriod such as "1m30s".
	Hard, Soft, SoftGracePeriod map[string]string
	// MinimumReclaim are amounts or shares.
	MinimumReclaim map[string]string
}

// Default returns upstream's hard thresholds.
func Default() Config {
	return Config{Hard: map[string]string{
		string(MemoryAvailable): "100Mi", string(NodeFsAvailable): "10%", string(NodeFsInodesFree): "5%",
		string(ImageFsAvailable): "15%", string(ImageFsInodesFree): "5%",
	}}
}

// Parse reads thresholds and returns them in the order of their signals, hard ones first. Hard memory thresholds also
// apply to what all pods together may use. Without any, the list is empty but not nil. It fails with ErrThreshold.
func Parse(c Config) ([]Threshold, error) {
	hard, err := parseAll(c.Hard)
	if err != nil {
		return nil, err
	}
	soft, err := parseAll(c.Soft)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(c.SoftGracePeriod)) {
		if err := checkSignal(name); err != nil {
			return nil, err
		}
	}
	for i := range soft {
		text, ok := c.SoftGracePeriod[string(soft[i].Signal)]
		if !ok {
			return nil, fmt.Errorf("%w: grace period must be specified for the soft eviction threshold %s", ErrThreshold, soft[i].Signal)
		}
		soft[i].GracePeriod, err = time.ParseDuration(text)
		if err != nil || soft[i].GracePeriod < 0 {
			return nil, fmt.Errorf("%w: invalid eviction grace period specified: %s, must be a positive value", ErrThreshold, text)
		}
	}
	all := append([]Threshold{}, hard...) // not nil, even if there are none
	all = append(all, soft...)
	for _, name := range slices.Sorted(maps.Keys(c.MinimumReclaim)) {
		value, err := parseReclaim(name, c.MinimumReclaim[name])
		if err != nil {
			return nil, err
		}
		for i := range all {
			if all[i].Signal == Signal(name) {
				all[i].MinReclaim = value
			}
		}
	}
	for _, t := range all {
		if t.Signal == MemoryAvailable && t.GracePeriod == 0 {
			t.Signal = AllocatableMemory
			all = append(all, t)
		}
	}
	return all, nil
}

func checkSignal(name string) error {
	if Signal(name).resource() == "" {
		return fmt.Errorf("%w: unsupported eviction signal %s", ErrThreshold, name)
	}
	return nil
}

func parseAll(statements map[string]string) ([]Threshold, error) {
	var out []Threshold
	for _, name := range slices.Sorted(maps.Keys(statements)) {
		if err := checkSignal(name); err != nil {
			return nil, err
		}
		text := statements[name]
		if text == "0%" || text == "100%" {
			continue // turns the threshold off
		}
		value, err := parseValue(text)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrThreshold, name, err)
		}
		switch percent := strings.HasSuffix(text, "%"); {
		case value.Share < 0:
			return nil, fmt.Errorf("%w: eviction percentage threshold %s must be >= 0%%: %s", ErrThreshold, name, text)
		case value.Share > 1:
			return nil, fmt.Errorf("%w: eviction percentage threshold %s must be <= 100%%: %s", ErrThreshold, name, text)
		case !percent && value.Quantity.Sign() <= 0:
			return nil, fmt.Errorf("%w: eviction threshold %s must be positive: %s", ErrThreshold, name, text)
		}
		out = append(out, Threshold{Signal: Signal(name), Value: value})
	}
	return out, nil
}

func parseReclaim(name, text string) (Value, error) {
	if err := checkSignal(name); err != nil {
		return Value{}, err
	}
	value, err := parseValue(text)
	if err != nil {
		return Value{}, fmt.Errorf("%w: %s: %w", ErrThreshold, name, err)
	}
	switch percent := strings.HasSuffix(text, "%"); {
	case percent && value.Share <= 0:
		return Value{}, fmt.Errorf("%w: eviction percentage minimum reclaim %s must be positive: %s", ErrThreshold, name, text)
	case value.Quantity.Sign() < 0:
		return Value{}, fmt.Errorf("%w: negative eviction minimum reclaim specified for %s", ErrThreshold, name)
	}
	return value, nil
}

func parseValue(text string) (Value, error) {
	if number, ok := strings.CutSuffix(text, "%"); ok {
		share, err := strconv.ParseFloat(number, 32)
		if err != nil || math.IsNaN(share) || math.IsInf(share, 0) {
			return Value{}, fmt.Errorf("%q is no percentage", text)
		}
		return Value{Share: float32(share) / 100}, nil
	}
	quantity, err := boundedquantity.Parse(text)
	return Value{Quantity: quantity}, err
}

// Reserved returns what hard thresholds withhold from pods, to be subtracted from a node's allocatable resources.
func Reserved(thresholds []Threshold, capacity corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, t := range thresholds {
		if t.GracePeriod != 0 || t.Signal != MemoryAvailable && t.Signal != NodeFsAvailable {
			continue
		}
		if total, ok := capacity[t.Signal.resource()]; ok {
			out[t.Signal.resource()] = t.Value.of(total)
		}
	}
	return out
}

// Layout describes which filesystems the runtime uses. In the zero value everything is on the node's main filesystem.
type Layout struct {
	// DedicatedImages is set if images are not on the node's main filesystem.
	DedicatedImages bool
	// SplitContainers is set if the writable layers of containers are not with the images, but on the main filesystem.
	SplitContainers bool
}

// ForLayout adds thresholds for the filesystem of writable layers, copied from those of the filesystem that the layers
// are on. As upstream, any that were given for it are ignored.
func ForLayout(thresholds []Threshold, l Layout) []Threshold {
	out := slices.DeleteFunc(slices.Clone(thresholds), func(t Threshold) bool {
		return t.Signal == ContainerFsAvailable || t.Signal == ContainerFsInodesFree
	})
	available, free := NodeFsAvailable, NodeFsInodesFree
	if l.DedicatedImages && !l.SplitContainers {
		available, free = ImageFsAvailable, ImageFsInodesFree
	}
	for _, t := range slices.Clone(out) {
		switch t.Signal {
		case available:
			t.Signal = ContainerFsAvailable
		case free:
			t.Signal = ContainerFsInodesFree
		default:
			continue
		}
		out = append(out, t)
	}
	return out
}

// byUrgency puts memory first.
func byUrgency(a, b Threshold) int {
	return yesFirst(a.Signal.resource() == corev1.ResourceMemory, b.Signal.resource() == corev1.ResourceMemory)
}
