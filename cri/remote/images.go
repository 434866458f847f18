package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/internal/wire"
)

// PullImage pulls an image. As everywhere in Kubernetes, an unclassified failure is reported without gRPC's prefix.
func (r *Runtime) PullImage(ctx context.Context, image cri.ImageSpec, auth *cri.Auth) (string, error) {
	response, err := r.images.PullImage(ctx, &v1.PullImageRequest{Image: wire.EncodeImageSpec(image), Auth: wire.EncodeAuth(auth)})
	switch {
	case status.Code(err) == codes.Unknown:
		return "", described{r.failed(ctx, err), status.Convert(err).Message()}
	case err != nil:
		return "", r.failed(ctx, err)
	case response.GetImageRef() == "":
		return "", fmt.Errorf("imageRef of image %q is not set", image.Image)
	}
	return response.GetImageRef(), nil
}

// described is an error with a text of its own.
type described struct {
	error
	text string
}

func (d described) Error() string       { return d.text }
func (d described) Description() string { return d.text }
func (d described) Unwrap() error       { return d.error }

// RemoveImage removes an image.
func (r *Runtime) RemoveImage(ctx context.Context, image cri.ImageSpec) error {
	_, err := r.images.RemoveImage(ctx, &v1.RemoveImageRequest{Image: wire.EncodeImageSpec(image)})
	return r.gone(ctx, err)
}

// ImageStatus describes an existing image.
func (r *Runtime) ImageStatus(ctx context.Context, image cri.ImageSpec) (cri.Image, error) {
	response, err := r.images.ImageStatus(ctx, &v1.ImageStatusRequest{Image: wire.EncodeImageSpec(image)})
	switch {
	case err != nil:
		return cri.Image{}, r.failed(ctx, err)
	case response.GetImage() == nil:
		return cri.Image{}, fmt.Errorf("image %q: %w", image.Image, cri.ErrNotFound)
	case response.GetImage().GetId() == "":
		return cri.Image{}, fmt.Errorf("the runtime describes image %q without an id", image.Image)
	}
	return wire.DecodeImage(response.GetImage()), nil
}

// ListImages returns the existing images, by ID.
func (r *Runtime) ListImages(ctx context.Context) ([]cri.Image, error) {
	response, err := r.images.ListImages(ctx, &v1.ListImagesRequest{})
	items := response.GetImages()
	if tooLong(err) {
		items, err = streamed(err, func() (grpc.ServerStreamingClient[v1.StreamImagesResponse], error) {
			return r.images.StreamImages(ctx, &v1.StreamImagesRequest{})
		}, (*v1.StreamImagesResponse).GetImages)
	}
	if err != nil {
		return nil, r.failed(ctx, err)
	}
	list := make([]cri.Image, 0, len(items))
	for _, item := range items {
		list = append(list, wire.DecodeImage(item))
	}
	slices.SortFunc(list, func(a, b cri.Image) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}

// ImageFilesystem returns where images are stored and the usage of that filesystem.
func (r *Runtime) ImageFilesystem(ctx context.Context) (images, containers cri.FilesystemUsage, err error) {
	response, err := r.images.ImageFsInfo(ctx, &v1.ImageFsInfoRequest{})
	switch {
	case err != nil:
		return images, containers, r.failed(ctx, err)
	case len(response.GetImageFilesystems()) == 0:
		return images, containers, errors.New("the runtime reports no filesystem for images")
	}
	images = wire.DecodeFilesystem(response.GetImageFilesystems()[0])
	containers = images
	if all := response.GetContainerFilesystems(); len(all) > 0 {
		containers = wire.DecodeFilesystem(all[0])
	}
	return images, containers, nil
}
