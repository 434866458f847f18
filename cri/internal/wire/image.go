package wire

import (
	v1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/cri"
)

// EncodeImageSpec makes the message.
func EncodeImageSpec(s cri.ImageSpec) *v1.ImageSpec {
	return &v1.ImageSpec{
		Image: s.Image, UserSpecifiedImage: s.UserSpecified, ImageRef: s.Ref, Annotations: s.Annotations, RuntimeHandler: s.RuntimeHandler,
	}
}

// DecodeImageSpec reads the message.
func DecodeImageSpec(s *v1.ImageSpec) cri.ImageSpec {
	return cri.ImageSpec{
		Image: s.GetImage(), UserSpecified: s.GetUserSpecifiedImage(), Ref: s.GetImageRef(),
		Annotations: s.GetAnnotations(), RuntimeHandler: s.GetRuntimeHandler(),
	}
}

// EncodeAuth makes the message; nil is nil.
func EncodeAuth(a *cri.Auth) *v1.AuthConfig {
	if a == nil {
		return nil
	}
	return &v1.AuthConfig{
		Username: a.Username, Password: a.Password, Auth: a.Auth,
		IdentityToken: a.IdentityToken, RegistryToken: a.RegistryToken, ServerAddress: a.ServerAddress,
	}
}

// DecodeAuth reads the message; nil is nil.
func DecodeAuth(a *v1.AuthConfig) *cri.Auth {
	if a == nil {
		return nil
	}
	return &cri.Auth{
		Username: a.GetUsername(), Password: a.GetPassword(), Auth: a.GetAuth(),
		IdentityToken: a.GetIdentityToken(), RegistryToken: a.GetRegistryToken(), ServerAddress: a.GetServerAddress(),
	}
}

// EncodeImage makes the message.
func EncodeImage(i cri.Image) *v1.Image {
	return &v1.Image{
		Id: i.ID, RepoTags: i.Tags, RepoDigests: i.Digests, Size: i.Size, Username: i.Username, Uid: encodeInt(i.UID), Pinned: i.Pinned,
	}
}

// DecodeImage reads the message.
func DecodeImage(i *v1.Image) cri.Image {
	return cri.Image{
		ID: i.GetId(), Tags: i.GetRepoTags(), Digests: i.GetRepoDigests(), Size: i.GetSize(), Username: i.GetUsername(), UID: decodeInt(i.GetUid()), Pinned: i.GetPinned(),
	}
}
