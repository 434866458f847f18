package kubelet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
)

// failure is why a container could not be started, in the words of its status.
type failure struct {
	waiting
	// retry is when the next attempt makes sense; zero is after the usual wait.
	retry time.Time
}

func (f *failure) Error() string { return f.Reason + ": " + f.Message }

// pulledImage is an image that is there, and the reference to make containers from.
type pulledImage struct {
	ref string
	cri.Image
}

// ensureImage makes sure that the container's image is there.
func (w *worker) ensureImage(ctx context.Context, pod *corev1.Pod, c *corev1.Container) (pulledImage, error) {
	image := defaultTag(c.Image)
	spec := cri.ImageSpec{Image: image}
	policy := c.ImagePullPolicy
	if policy != corev1.PullAlways {
		present, err := w.k.images.ImageStatus(ctx, spec)
		switch {
		case err == nil:
			w.k.containerEvent(subject{pod, c.Name, ""}, corev1.EventTypeNormal, "Pulled",
				fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", c.Image))
			return pulledImage{imageRef(present), present}, nil
		case !errors.Is(err, cri.ErrNotFound):
			message := fmt.Sprintf("Failed to inspect image %q: %v", "", err)
			w.k.containerEvent(subject{pod, c.Name, ""}, corev1.EventTypeWarning, "InspectFailed", message)
			return pulledImage{}, &failure{waiting: waiting{"ImageInspectError", message}}
		case policy == corev1.PullNever:
			message := fmt.Sprintf("Container image %q is not present with pull policy of Never", c.Image)
			w.k.containerEvent(subject{pod, c.Name, ""}, corev1.EventTypeWarning, "ErrImageNeverPull", message)
			return pulledImage{}, &failure{waiting: waiting{"ErrImageNeverPull", message}}
		}
	}
	return w.pullImage(ctx, pod, c, spec)
}

// pullImage pulls an image, or refuses to do so too soon after it failed.
func (w *worker) pullImage(ctx context.Context, pod *corev1.Pod, c *corev1.Container, spec cri.ImageSpec) (pulledImage, error) {
	start := time.Now()
	if until, _ := w.pulls.sinceUpdate(c.Image, start); !until.IsZero() {
		message := fmt.Sprintf("Back-off pulling image %q", c.Image)
		w.k.containerEvent(subject{pod, c.Name, ""}, corev1.EventTypeNormal, "BackOff", message)
		if before, ok := w.pullErrors[c.Image]; ok {
			message += ": " + before
		}
		return pulledImage{}, &failure{waiting: waiting{"ImagePullBackOff", message}, retry: until}
	}
	delete(w.pullErrors, c.Image)
	w.k.containerEvent(subject{pod, c.Name, ""}, corev1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q", c.Image))
	ref, err := w.pullWithCredentials(ctx, pod, spec)
	if ctx.Err() != nil {
		return pulledImage{}, ctx.Err()
	}
	now := time.Now()
	if err != nil {
		w.k.containerEvent(subject{pod, c.Name, ""}, corev1.EventTypeWarning, "Failed",
			fmt.Sprintf("Failed to pull image %q: %v", c.Image, err))
		w.pulls.next(c.Image, now, now)
		why := pullFailure(c.Image, err)
		w.pullErrors[c.Image] = why.Reason + ": " + why.Message
		// Look again soon to say that it is backing off.
		return pulledImage{}, &failure{waiting: why, retry: now.Add(plegPeriod)}
	}
	took := now.Sub(start).Truncate(time.Millisecond)
	pulled := pulledImage{ref: ref}
	if image, err := w.k.images.ImageStatus(ctx, cri.ImageSpec{Image: ref}); err == nil {
		pulled.Image = image
	}
	w.k.containerEvent(subject{pod, c.Name, ""}, corev1.EventTypeNormal, "Pulled",
		fmt.Sprintf("Successfully pulled image %q in %v (%v including waiting). Image size: %v bytes.", c.Image, took, took, pulled.Size))
	return pulled, nil
}

// pullWithCredentials tries the credentials that there are for an image in turn, or goes without.
func (w *worker) pullWithCredentials(ctx context.Context, pod *corev1.Pod, spec cri.ImageSpec) (string, error) {
	list, err := w.k.options.Host.Credentials.For(ctx, pod, spec.Image)
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return w.k.images.PullImage(ctx, spec, nil)
	}
	var errs []error
	for i := range list {
		ref, err := w.k.images.PullImage(ctx, spec, &list[i])
		if err == nil || ctx.Err() != nil {
			return ref, err
		}
		errs = append(errs, err)
	}
	return "", join(errs)
}

// pullFailure turns the runtime's error into the reason and message of a waiting container.
func pullFailure(image string, err error) waiting {
	for sentinel, what := range map[error]string{
		cri.ErrRegistryUnavailable: "the registry is unavailable",
		cri.ErrSignatureValidation: "the signature validation failed",
	} {
		if errors.Is(err, sentinel) {
			rest := strings.TrimPrefix(err.Error(), sentinel.Error())
			return waiting{sentinel.Error(), fmt.Sprintf("image pull failed for %s because %s%s", image, what, rest)}
		}
	}
	return waiting{"ErrImagePull", err.Error()}
}

// imageRef is what names exactly this image: a digest where it has one.
func imageRef(i cri.Image) string {
	if len(i.Digests) > 0 {
		return i.Digests[0]
	}
	return i.ID
}

// defaultTag adds the tag that a name without tag and digest stands for.
func defaultTag(image string) string {
	if strings.Contains(image, "@") || strings.LastIndexByte(image, ':') > strings.LastIndexByte(image, '/') {
		return image
	}
	return image + ":latest"
}
