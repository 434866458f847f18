package credentials

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/kubelet"
)

// ErrInvalid: something that should be a docker configuration is none. It says nothing of what it
// is instead, which may be secret.
var ErrInvalid = errors.New("no valid docker configuration")

// maxConfig is how many bytes of a node's configuration are read.
const maxConfig = 10 << 20

// Secrets is where secrets come from. It fails when it does not have the secret.
type Secrets interface {
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
}

// SecretsFunc is a Secrets made of a function.
type SecretsFunc func(ctx context.Context, namespace, name string) (*corev1.Secret, error)

// Secret calls f.
func (f SecretsFunc) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return f(ctx, namespace, name)
}

// Options of a Keyring. The zero value is valid.
type Options struct {
	// ConfigFile is the node's own docker configuration (config.json), which is for all pods; it is
	// read anew for every image. Empty, or a file that is not there, is none.
	ConfigFile string
	// Recorder is told of secrets that cannot be had; nil drops that.
	Recorder events.Recorder
	// Logger is told about a node's configuration that is no good; nil discards.
	Logger *slog.Logger
}

// Keyring knows what to tell registries. Make one with New.
type Keyring struct {
	secrets Secrets
	options Options
}

var _ kubelet.Credentials = (*Keyring)(nil)

// New makes a Keyring.
func New(secrets Secrets, o Options) (*Keyring, error) {
	if secrets == nil {
		return nil, errors.New("credentials need a source of secrets")
	}
	if o.Recorder == nil {
		o.Recorder = events.Discard()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Keyring{secrets: secrets, options: o}, nil
}

// For returns the credentials to try for an image of a pod, in this order; none is to try without.
func (k *Keyring) For(ctx context.Context, pod *corev1.Pod, image string) ([]cri.Auth, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return nil, fmt.Errorf("couldn't parse image name %q: %w", image, err)
	}
	repository := named.Name()
	ofPod, err := k.ofPod(ctx, pod)
	if err != nil {
		return nil, err
	}
	return append(ofPod.lookup(repository), k.ofNode().lookup(repository)...), nil
}

// ofPod are the entries of a pod's image pull secrets. Secrets of other types are ignored.
func (k *Keyring) ofPod(ctx context.Context, pod *corev1.Pod) (ring, error) {
	all := ring{}
	var missing []string
	for _, ref := range pod.Spec.ImagePullSecrets {
		if ref.Name == "" {
			continue // validation lets it through
		}
		secret, err := k.secrets.Secret(ctx, pod.Namespace, ref.Name)
		if err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			missing = append(missing, ref.Name)
			continue
		}
		entries, err := parseSecret(secret)
		if err != nil {
			return nil, fmt.Errorf("image pull secret %s/%s: %w", pod.Namespace, ref.Name, err)
		}
		all.add(entries)
	}
	if len(missing) > 0 {
		k.options.Recorder.Record(events.Event{
			Regarding: events.About(corev1.SchemeGroupVersion.WithKind("Pod"), pod),
			Type:      corev1.EventTypeWarning, Reason: "FailedToRetrieveImagePullSecret",
			Message: fmt.Sprintf("Unable to retrieve some image pull secrets (%s); attempting to pull the image may not succeed.",
				strings.Join(missing, ", ")),
		})
	}
	return all, nil
}

func parseSecret(secret *corev1.Secret) (map[string]entry, error) {
	switch secret.Type {
	case corev1.SecretTypeDockerConfigJson:
		return parseConfig(secret.Data[corev1.DockerConfigJsonKey])
	case corev1.SecretTypeDockercfg:
		return parseLegacy(secret.Data[corev1.DockerConfigKey])
	default:
		return nil, nil
	}
}

// ofNode are the entries of the node's own configuration. One that is no good is as good as none:
// it must not keep the pods from images that need no credentials.
func (k *Keyring) ofNode() ring {
	info, err := os.Stat(k.options.ConfigFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil && info.Size() > maxConfig {
		err = fmt.Errorf("%w: larger than %d bytes", ErrInvalid, maxConfig)
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(k.options.ConfigFile)
	}
	var entries map[string]entry
	if err == nil {
		entries, err = parseConfig(data)
	}
	if err != nil {
		k.options.Logger.Warn("the node's image credentials cannot be used", "file", k.options.ConfigFile, "error", err)
	}
	all := ring{}
	all.add(entries)
	return all
}
