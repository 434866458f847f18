package serve

import (
	"context"
	"errors"

	v1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/internal/wire"
)

// imageServer is CRI's ImageService.
type imageServer struct {
	v1.UnimplementedImageServiceServer
	images cri.ImageService
}

func (s *imageServer) PullImage(ctx context.Context, r *v1.PullImageRequest) (*v1.PullImageResponse, error) {
	ref, err := s.images.PullImage(ctx, wire.DecodeImageSpec(r.GetImage()), wire.DecodeAuth(r.GetAuth()))
	return answer(&v1.PullImageResponse{ImageRef: ref}, err)
}

func (s *imageServer) RemoveImage(ctx context.Context, r *v1.RemoveImageRequest) (*v1.RemoveImageResponse, error) {
	return answer(&v1.RemoveImageResponse{}, s.images.RemoveImage(ctx, wire.DecodeImageSpec(r.GetImage())))
}

// ImageStatus returns an empty answer for a missing image, as CRI requires.
func (s *imageServer) ImageStatus(ctx context.Context, r *v1.ImageStatusRequest) (*v1.ImageStatusResponse, error) {
	image, err := s.images.ImageStatus(ctx, wire.DecodeImageSpec(r.GetImage()))
	if errors.Is(err, cri.ErrNotFound) {
		return &v1.ImageStatusResponse{}, nil
	}
	return answer(&v1.ImageStatusResponse{Image: wire.EncodeImage(image)}, err)
}

func (s *imageServer) ListImages(ctx context.Context, r *v1.ListImagesRequest) (*v1.ListImagesResponse, error) {
	if r.GetFilter().GetImage().GetImage() != "" {
		one, err := s.ImageStatus(ctx, &v1.ImageStatusRequest{Image: r.GetFilter().GetImage()})
		if err != nil || one.GetImage() == nil {
			return &v1.ListImagesResponse{}, err
		}
		return &v1.ListImagesResponse{Images: []*v1.Image{one.GetImage()}}, nil
	}
	list, err := s.images.ListImages(ctx)
	response := &v1.ListImagesResponse{}
	for _, item := range list {
		response.Images = append(response.Images, wire.EncodeImage(item))
	}
	return answer(response, err)
}

func (s *imageServer) ImageFsInfo(ctx context.Context, _ *v1.ImageFsInfoRequest) (*v1.ImageFsInfoResponse, error) {
	reader, err := part[cri.FilesystemReader](s.images, "filesystem usage")
	if err != nil {
		return nil, err
	}
	images, containers, err := reader.ImageFilesystem(ctx)
	return answer(&v1.ImageFsInfoResponse{
		ImageFilesystems:     []*v1.FilesystemUsage{wire.EncodeFilesystem(images)},
		ContainerFilesystems: []*v1.FilesystemUsage{wire.EncodeFilesystem(containers)},
	}, err)
}
