package simulated

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/keelson-dev/keelson/cri"
)

// PullImage pulls from a registry that has every image; see Options.Behave for failures.
func (r *Runtime) PullImage(ctx context.Context, image cri.ImageSpec, _ *cri.Auth) (string, error) {
	if image.Image == "" {
		return "", fmt.Errorf("image without a name: %w", cri.ErrInvalid)
	}
	if err := r.perform(ctx, Operation{Verb: PullImage, Image: image.Image}); err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return reference(r.images.add(image.Image)), nil
}

// RemoveImage removes an image.
func (r *Runtime) RemoveImage(ctx context.Context, image cri.ImageSpec) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if found, ok := r.images.find(image.Image); ok {
		for _, tag := range found.Tags {
			delete(r.images.byName, tag)
		}
	}
	return nil
}

// ImageStatus describes an existing image.
func (r *Runtime) ImageStatus(ctx context.Context, image cri.ImageSpec) (cri.Image, error) {
	if err := r.perform(ctx, Operation{Verb: List, Image: image.Image}); err != nil {
		return cri.Image{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	found, ok := r.images.find(image.Image)
	if !ok {
		return cri.Image{}, fmt.Errorf("image %q: %w", image.Image, cri.ErrNotFound)
	}
	return copyImage(found), nil
}

// ListImages returns the existing images.
func (r *Runtime) ListImages(ctx context.Context) ([]cri.Image, error) {
	if err := r.perform(ctx, Operation{Verb: List}); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]cri.Image, 0, len(r.images.byName))
	for _, i := range r.images.byName {
		list = append(list, copyImage(i))
	}
	slices.SortFunc(list, func(a, b cri.Image) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}

// library is the store of images, by name.
type library struct {
	byName map[string]cri.Image
	size   uint64 // of each, in bytes
}

// add adds an image of that name. Its digests are derived from the name, so an image is the same on every node.
func (l library) add(name string) cri.Image {
	name = Normalize(name)
	if image, ok := l.byName[name]; ok {
		return image
	}
	repository, _, _ := strings.Cut(name, "@")
	if i := strings.LastIndexByte(repository, ':'); i > strings.LastIndexByte(repository, '/') {
		repository = repository[:i]
	}
	image := cri.Image{
		ID:      "sha256:" + identify("config", name),
		Tags:    []string{name},
		Digests: []string{repository + "@sha256:" + identify("manifest", name)},
		Size:    l.size,
	}
	l.byName[name] = image
	return image
}

// find finds an image by any of its names.
func (l library) find(name string) (cri.Image, bool) {
	if image, ok := l.byName[Normalize(name)]; ok {
		return image, true
	}
	for _, image := range l.byName {
		if image.ID == name || slices.Contains(image.Digests, name) {
			return image, true
		}
	}
	return cri.Image{}, false
}

// reference returns the reference of exactly this image.
func reference(image cri.Image) string { return image.Digests[0] }

func copyImage(i cri.Image) cri.Image {
	i.Tags, i.Digests = slices.Clone(i.Tags), slices.Clone(i.Digests)
	return i
}

// Normalize returns an image's full name, as runtimes do: with registry, and with tag "latest" if it has neither tag
// nor digest.
func Normalize(name string) string {
	first, rest, slash := strings.Cut(name, "/")
	switch {
	case !slash:
		name = "docker.io/library/" + name
	case !strings.ContainsAny(first, ".:") && first != "localhost":
		name = "docker.io/" + name
	case first == "docker.io" && !strings.Contains(rest, "/"):
		name = "docker.io/library/" + rest
	}
	if !strings.Contains(name, "@") && strings.LastIndexByte(name, ':') <= strings.LastIndexByte(name, '/') {
		name += ":latest"
	}
	return name
}
