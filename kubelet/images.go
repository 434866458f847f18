package kubelet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/decision"
)

// failure is why a container could not be started, as its status reports it.
type failure struct {
	decision.Waiting
	// retry is when to try again; the zero time means after the usual back-off.
	retry time.Time
}

func (f *failure) Error() string { return f.Reason + ": " + f.Message }

func because(reason, message string) decision.Waiting {
	return decision.Waiting{Reason: reason, Message: message}
}

// pulledImage is an image that is present, and the reference to create containers from.
type pulledImage struct {
	ref string
	cri.Image
}

// imageRuntime is the part of the image service that workers use.
type imageRuntime interface {
	ImageStatus(ctx context.Context, image cri.ImageSpec) (cri.Image, error)
	PullImage(ctx context.Context, image cri.ImageSpec, auth *cri.Auth) (string, error)
}

// imageService is the part of the image service that a kubelet uses.
type imageService interface {
	imageRuntime
	ListImages(ctx context.Context) ([]cri.Image, error)
}

// puller pulls the images of one pod.
type puller struct {
	images      imageRuntime
	credentials Credentials
	recorder
	backoff *decision.Backoff
	errors  map[string]string // the last failure, by image
}

func newPuller(p *parts) puller {
	return puller{p.images, p.host.Credentials, p.recorder, decision.NewBackoff(pullDelay, maxPullDelay, 2*maxPullDelay), map[string]string{}}
}

// ensure makes sure that the container's image is present.
func (p puller) ensure(ctx context.Context, pod *corev1.Pod, c *corev1.Container) (pulledImage, error) {
	image := defaultTag(c.Image)
	spec := cri.ImageSpec{Image: image}
	policy := c.ImagePullPolicy
	if policy != corev1.PullAlways {
		present, err := p.images.ImageStatus(ctx, spec)
		switch {
		case err == nil:
			p.containerEvent(subject{pod, c.Name, ""}, corev1.EventTypeNormal, "Pulled",
				fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", c.Image))
			return pulledImage{imageRef(present), present}, nil
		case !errors.Is(err, cri.ErrNotFound):
			message := fmt.Sprintf("Failed to inspect image %q: %v", "", err)
			p.containerEvent(subject{pod, c.Name, ""}, corev1.EventTypeWarning, "InspectFailed", message)
			return pulledImage{}, &failure{Waiting: because("ImageInspectError", message)}
		case policy == corev1.PullNever:
			message := fmt.Sprintf("Container image %q is not present with pull policy of Never", c.Image)
			p.containerEvent(subject{pod, c.Name, ""}, corev1.EventTypeWarning, "ErrImageNeverPull", message)
			return pulledImage{}, &failure{Waiting: because("ErrImageNeverPull", message)}
		}
	}
	return p.pull(ctx, pod, c, spec)
}

// pull pulls an image, unless the last attempt failed too recently.
func (p puller) pull(ctx context.Context, pod *corev1.Pod, c *corev1.Container, spec cri.ImageSpec) (pulledImage, error) {
	start := time.Now()
	if until, _ := p.backoff.SinceUpdate(c.Image, start); !until.IsZero() {
		message := fmt.Sprintf("Back-off pulling image %q", c.Image)
		p.containerEvent(subject{pod, c.Name, ""}, corev1.EventTypeNormal, "BackOff", message)
		if before, ok := p.errors[c.Image]; ok {
			message += ": " + before
		}
		return pulledImage{}, &failure{Waiting: because("ImagePullBackOff", message), retry: until}
	}
	delete(p.errors, c.Image)
	p.containerEvent(subject{pod, c.Name, ""}, corev1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q", c.Image))
	ref, err := p.pullWithCredentials(ctx, pod, spec)
	if ctx.Err() != nil {
		return pulledImage{}, ctx.Err()
	}
	now := time.Now()
	if err != nil {
		p.containerEvent(subject{pod, c.Name, ""}, corev1.EventTypeWarning, "Failed",
			fmt.Sprintf("Failed to pull image %q: %v", c.Image, err))
		p.backoff.Next(c.Image, now, now)
		why := pullFailure(c.Image, err)
		p.errors[c.Image] = why.Reason + ": " + why.Message
		// Sync again soon to report the back-off.
		return pulledImage{}, &failure{Waiting: why, retry: now.Add(plegPeriod)}
	}
	took := now.Sub(start).Truncate(time.Millisecond)
	pulled := pulledImage{ref: ref}
	if image, err := p.images.ImageStatus(ctx, cri.ImageSpec{Image: ref}); err == nil {
		pulled.Image = image
	}
	p.containerEvent(subject{pod, c.Name, ""}, corev1.EventTypeNormal, "Pulled",
		fmt.Sprintf("Successfully pulled image %q in %v (%v including waiting). Image size: %v bytes.", c.Image, took, took, pulled.Size))
	return pulled, nil
}

// pullWithCredentials tries an image's credentials in turn, or pulls anonymously if there are none.
func (p puller) pullWithCredentials(ctx context.Context, pod *corev1.Pod, spec cri.ImageSpec) (string, error) {
	list, err := p.credentials.For(ctx, pod, spec.Image)
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return p.images.PullImage(ctx, spec, nil)
	}
	var errs []error
	for i := range list {
		ref, err := p.images.PullImage(ctx, spec, &list[i])
		if err == nil || ctx.Err() != nil {
			return ref, err
		}
		errs = append(errs, err)
	}
	return "", join(errs)
}

// pullFailure turns the runtime's error into the reason and message of a waiting container.
func pullFailure(image string, err error) decision.Waiting {
	for sentinel, what := range map[error]string{
		cri.ErrRegistryUnavailable: "the registry is unavailable",
		cri.ErrSignatureValidation: "the signature validation failed",
	} {
		if errors.Is(err, sentinel) {
			rest := strings.TrimPrefix(err.Error(), sentinel.Error())
			return because(sentinel.Error(), fmt.Sprintf("image pull failed for %s because %s%s", image, what, rest))
		}
	}
	return because("ErrImagePull", err.Error())
}

// imageRef is the reference that identifies exactly this image: a digest if it has one.
func imageRef(i cri.Image) string {
	if len(i.Digests) > 0 {
		return i.Digests[0]
	}
	return i.ID
}

// defaultTag adds the default tag to a name without tag and digest.
func defaultTag(image string) string {
	if strings.Contains(image, "@") || strings.LastIndexByte(image, ':') > strings.LastIndexByte(image, '/') {
		return image
	}
	return image + ":latest"
}
