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

// ErrInvalid means that a docker configuration is malformed. It quotes nothing of the content, which may be secret.
var ErrInvalid = errors.New("no valid docker configuration")

// maxConfig is the maximum size of a node's configuration in bytes.
const maxConfig = 10 << 20

// Secrets reads secrets. It fails if it does not have the secret.
type Secrets interface {
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
}

// SecretsFunc adapts a function to Secrets.
type SecretsFunc func(ctx context.Context, namespace, name string) (*corev1.Secret, error)

// Secret calls f.
func (f SecretsFunc) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return f(ctx, namespace, name)
}

// Options configures a Keyring. The zero value is valid.
type Options struct {
	// ConfigFile is the node's own docker configuration (config.json), which applies to all pods; it is read anew for
	// every image. It may be empty or name a missing file.
	ConfigFile string
	// Recorder records events for secrets that cannot be read; nil drops them.
	Recorder events.Recorder
	// Logger records problems with the node's configuration; nil discards them.
	Logger *slog.Logger
}

// Keyring finds credentials for registries. Make one with New.
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

// For returns the credentials to try for an image of a pod, in this order; none means an anonymous pull.
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

// ofPod returns the entries of a pod's image pull secrets. Secrets of other types are ignored.
func (k *Keyring) ofPod(ctx context.Context, pod *corev1.Pod) (ring, error) {
	all := ring{}
	var missing []string
	for _, ref := range pod.Spec.ImagePullSecrets {
		if ref.Name == "" {
			continue // validation allows it
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

// ofNode returns the entries of the node's own configuration. An invalid one counts as none: it must not prevent pulls
// that need no credentials.
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
