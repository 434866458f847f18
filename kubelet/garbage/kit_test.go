package garbage_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/machine"
)

// world is a runtime with its images on a disk of 1000 bytes, and the pods of a node.
type world struct {
	mu         sync.Mutex
	sandboxes  []cri.Sandbox
	containers []cri.Container
	images     []cri.Image
	other      uint64 // bytes on the disk besides images
	gone       []string
	ended      []string
	unknown    bool            // the pods are not known yet
	broken     map[string]bool // IDs that cannot be removed
	stuck      map[string]bool // IDs that cannot be stopped
	err        error           // of lists
	inspect    error           // of the status of a missing image
	did        []string
}

func (w *world) note(format string, args ...any) {
	w.did = append(w.did, fmt.Sprintf(format, args...))
}

// fail makes lists fail.
func (w *world) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

func (w *world) told() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	did := w.did
	w.did = nil
	return did
}

func (w *world) Known() bool { w.mu.Lock(); defer w.mu.Unlock(); return !w.unknown }
func (w *world) Gone(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.gone, string(uid))
}
func (w *world) Ended(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.ended, string(uid))
}

var errBroken = errors.New("device or resource busy")

func (w *world) remove(what, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken[id] {
		return errBroken
	}
	w.note("remove %s %s", what, id)
	w.containers = slices.DeleteFunc(w.containers, func(c cri.Container) bool { return what == "container" && c.ID == id })
	w.sandboxes = slices.DeleteFunc(w.sandboxes, func(s cri.Sandbox) bool { return what == "sandbox" && s.ID == id })
	w.images = slices.DeleteFunc(w.images, func(i cri.Image) bool { return what == "image" && i.ID == id })
	return nil
}

func (w *world) RunPodSandbox(context.Context, cri.SandboxConfig) (string, error) {
	return "", cri.ErrUnsupported
}

func (w *world) StopPodSandbox(_ context.Context, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note("stop sandbox %s", id)
	if w.stuck[id] {
		return errBroken
	}
	return nil
}

func (w *world) RemovePodSandbox(_ context.Context, id string) error { return w.remove("sandbox", id) }

func (w *world) SandboxStatus(context.Context, string) (cri.SandboxStatus, error) {
	return cri.SandboxStatus{}, cri.ErrUnsupported
}

func (w *world) ListSandboxes(context.Context, cri.Filter) ([]cri.Sandbox, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.sandboxes), w.err
}

func (w *world) CreateContainer(context.Context, string, cri.ContainerConfig, cri.SandboxConfig) (string, error) {
	return "", cri.ErrUnsupported
}

func (w *world) StartContainer(context.Context, string) error { return cri.ErrUnsupported }

func (w *world) StopContainer(_ context.Context, id string, _ time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note("stop container %s", id)
	if w.stuck[id] {
		return errBroken
	}
	return nil
}

func (w *world) RemoveContainer(_ context.Context, id string) error { return w.remove("container", id) }

func (w *world) ContainerStatus(context.Context, string) (cri.ContainerStatus, error) {
	return cri.ContainerStatus{}, cri.ErrUnsupported
}

func (w *world) ListContainers(context.Context, cri.Filter) ([]cri.Container, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.containers), w.err
}

func (w *world) PullImage(context.Context, cri.ImageSpec, *cri.Auth) (string, error) {
	return "", cri.ErrUnsupported
}

func (w *world) RemoveImage(_ context.Context, image cri.ImageSpec) error {
	return w.remove("image", image.Image)
}

func (w *world) ImageStatus(_ context.Context, spec cri.ImageSpec) (cri.Image, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, image := range w.images {
		if image.ID == spec.Image || slices.Contains(image.Tags, spec.Image) {
			return image, nil
		}
	}
	return cri.Image{}, cmp.Or(w.inspect, cri.ErrNotFound)
}

func (w *world) ListImages(context.Context) ([]cri.Image, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.images), w.err
}

func (w *world) ImageFilesystem(context.Context) (cri.FilesystemUsage, cri.FilesystemUsage, error) {
	return cri.FilesystemUsage{Mountpoint: "/images"}, cri.FilesystemUsage{}, nil
}

func (w *world) disk(string) (machine.Filesystem, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	used := w.other
	for _, image := range w.images {
		used += image.Size
	}
	return machine.Filesystem{Capacity: 1000, Available: 1000 - used}, nil
}

// container returns a container of a pod, in its sandbox "s-UID", created the given minutes after the start.
func container(id, uid, name string, minutes int, state cri.ContainerState) cri.Container {
	return cri.Container{
		ID: id, SandboxID: "s-" + uid, Metadata: cri.ContainerMetadata{Name: name}, State: state, CreatedAt: at(minutes),
		Labels: map[string]string{cri.LabelPodUID: uid, cri.LabelContainerName: name},
	}
}

func sandbox(id, uid string, minutes int, state cri.SandboxState) cri.Sandbox {
	return cri.Sandbox{ID: id, Metadata: cri.SandboxMetadata{UID: uid}, State: state, CreatedAt: at(minutes)}
}

func image(id string, size uint64) cri.Image {
	return cri.Image{ID: id, Tags: []string{"example.com/" + id}, Size: size}
}

// at returns the time the given minutes after the start of synctest's clock.
func at(minutes int) time.Time {
	return time.Date(2000, 1, 1, 0, minutes, 0, 0, time.UTC)
}
