package serviceaccount

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
)

// Name is the plugin's name.
const Name = "ServiceAccount"

// Default is the service account of pods that name none.
const Default = "default"

// Accounts is the cache that the plugin reads; Get returns false for an account it does not have. An informer
// of service accounts is one.
type Accounts interface {
	Get(namespace, name string) (*corev1.ServiceAccount, bool)
}

// Options are the options of the plugin. The zero value is valid.
type Options struct {
	// Live reads a service account directly from the server, and returns false if it does not exist. Without
	// Live, the cache is read again.
	Live func(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, bool, error)
	// Suffix makes the five characters at the end of a volume's name, like registry.Identifiers.Suffix; base
	// identifies the pod. nil makes random ones.
	Suffix func(resource, namespace, base string) string
}

// How long the plugin waits for the default account of a new namespace.
const (
	attempts = 10
	interval = 100 * time.Millisecond
)

// Plugin is the admission plugin. Make one with New.
type Plugin struct {
	accounts Accounts
	options  Options
}

var (
	_ admission.Mutator   = (*Plugin)(nil)
	_ admission.Validator = (*Plugin)(nil)
)

// New returns the plugin.
func New(accounts Accounts, options Options) *Plugin {
	if options.Suffix == nil {
		options.Suffix = randomSuffix
	}
	return &Plugin{accounts: accounts, options: options}
}

// randomSuffix makes upstream's suffixes: without vowels and look-alikes.
func randomSuffix(string, string, string) string {
	const alphabet = "bcdfghjklmnpqrstvwxz2456789"
	b := make([]byte, 5)
	_, _ = rand.Read(b) // never fails, as documented
	for i := range b {
		b[i] = alphabet[int(b[i])%len(alphabet)]
	}
	return string(b)
}

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// podOf returns the pod of a request that the plugin handles.
func podOf(r *admission.Request) (*corev1.Pod, bool) {
	if r.Resource.GroupResource() != (schema.GroupResource{Resource: "pods"}) {
		return nil, false
	}
	pod, ok := r.Object.(*corev1.Pod)
	return pod, ok
}

func isMirror(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}

// Admit implements admission.Mutator.
func (p *Plugin) Admit(ctx context.Context, r *admission.Request) error {
	pod, ok := podOf(r)
	if !ok || r.Operation != admission.Create || r.Subresource != "" {
		return nil
	}
	if isMirror(pod) {
		return checkMirror(r, pod)
	}
	if pod.Spec.ServiceAccountName == "" {
		pod.Spec.ServiceAccountName = Default
		pod.Spec.DeprecatedServiceAccount = Default
	}
	account, err := p.account(ctx, r, pod)
	if err != nil {
		return err
	}
	if automounts(account, pod) {
		p.mountToken(r, pod)
	}
	if len(pod.Spec.ImagePullSecrets) == 0 {
		for _, secret := range account.ImagePullSecrets {
			pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: secret.Name})
		}
	}
	return checkSecrets(r, account, pod)
}

// Validate implements admission.Validator.
func (p *Plugin) Validate(ctx context.Context, r *admission.Request) error {
	pod, ok := podOf(r)
	if !ok {
		return nil
	}
	switch {
	case r.Operation == admission.Create && r.Subresource == "":
		if isMirror(pod) {
			return checkMirror(r, pod)
		}
	case r.Operation == admission.Update && r.Subresource == "ephemeralcontainers":
	default:
		return nil
	}
	if pod.Spec.ServiceAccountName == "" {
		return admission.Forbidden(r, "no service account specified for pod %s/%s", r.Namespace, pod.Name)
	}
	account, err := p.account(ctx, r, pod)
	if err != nil {
		return err
	}
	if r.Subresource != "" {
		return checkEphemeralSecrets(account, pod)
	}
	return checkSecrets(r, account, pod)
}

// account returns the pod's service account, or the refusal of the pod.
func (p *Plugin) account(ctx context.Context, r *admission.Request, pod *corev1.Pod) (*corev1.ServiceAccount, error) {
	name := pod.Spec.ServiceAccountName
	account, err := p.find(ctx, r.Namespace, name)
	if err != nil {
		return nil, admission.Forbidden(r, "error looking up service account %s/%s: %w", r.Namespace, name, err)
	}
	return account, nil
}

// find reads a service account from the cache, then from the server.
func (p *Plugin) find(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	if account, ok := p.accounts.Get(namespace, name); ok {
		return account, nil
	}
	left := 1
	if name == Default {
		left = attempts
	}
	for {
		account, ok, err := p.live(ctx, namespace, name)
		if ok || err != nil {
			return account, err
		}
		if left--; left == 0 {
			return nil, admission.NotFound(schema.GroupResource{Resource: "serviceaccount"}, name)
		}
		timer := time.NewTimer(interval)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
}

func (p *Plugin) live(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, bool, error) {
	if p.options.Live == nil {
		account, ok := p.accounts.Get(namespace, name)
		return account, ok, nil
	}
	return p.options.Live(ctx, namespace, name)
}

// automounts reports whether the pod gets a token: by its own setting, or else its account's, or else yes.
func automounts(account *corev1.ServiceAccount, pod *corev1.Pod) bool {
	if wish := pod.Spec.AutomountServiceAccountToken; wish != nil {
		return *wish
	}
	if wish := account.AutomountServiceAccountToken; wish != nil {
		return *wish
	}
	return true
}

// limits reports whether the account limits its pods to the secrets that it lists.
func limits(account *corev1.ServiceAccount) bool {
	limit, _ := strconv.ParseBool(account.Annotations["kubernetes.io/enforce-mountable-secrets"])
	return limit
}

// checkSecrets refuses secrets that the account does not list, if it limits them.
func checkSecrets(r *admission.Request, account *corev1.ServiceAccount, pod *corev1.Pod) error {
	if !limits(account) {
		return nil
	}
	if err := foreignSecret(account, pod); err != nil {
		return admission.Forbidden(r, "%w", err)
	}
	return nil
}

// checkEphemeralSecrets is checkSecrets for containers added to a running pod. Like upstream, it returns the
// plain error.
func checkEphemeralSecrets(account *corev1.ServiceAccount, pod *corev1.Pod) error {
	if !limits(account) {
		return nil
	}
	for i := range pod.Spec.EphemeralContainers {
		c := (*corev1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		if err := foreignEnv(account, "ephemeral container", c); err != nil {
			return err
		}
	}
	return nil
}

// foreignSecret returns an error for the first secret that the pod uses but its account does not list.
func foreignSecret(account *corev1.ServiceAccount, pod *corev1.Pod) error {
	for i := range pod.Spec.Volumes {
		if s := pod.Spec.Volumes[i].Secret; s != nil && !lists(account, s.SecretName) {
			return fmt.Errorf("volume with secret.secretName=%q is not allowed because service account %s does not reference that secret", s.SecretName, account.Name)
		}
	}
	for i := range pod.Spec.InitContainers {
		if err := foreignEnv(account, "init container", &pod.Spec.InitContainers[i]); err != nil {
			return err
		}
	}
	for i := range pod.Spec.Containers {
		if err := foreignEnv(account, "container", &pod.Spec.Containers[i]); err != nil {
			return err
		}
	}
	pull := map[string]bool{}
	for _, s := range account.ImagePullSecrets {
		pull[s.Name] = true
	}
	for i, s := range pod.Spec.ImagePullSecrets {
		if !pull[s.Name] {
			return fmt.Errorf("imagePullSecrets[%d].name=%q is not allowed because service account %s does not reference that imagePullSecret", i, s.Name, account.Name)
		}
	}
	return nil
}

// foreignEnv returns an error for the first secret in the environment of c that the account does not list.
func foreignEnv(account *corev1.ServiceAccount, kind string, c *corev1.Container) error {
	for _, e := range c.Env {
		if e.ValueFrom == nil || e.ValueFrom.SecretKeyRef == nil {
			continue
		}
		if name := e.ValueFrom.SecretKeyRef.Name; !lists(account, name) {
			return fmt.Errorf("%s %s with envVar %s referencing secret.secretName=%q is not allowed because service account %s does not reference that secret", kind, c.Name, e.Name, name, account.Name)
		}
	}
	for _, e := range c.EnvFrom {
		if e.SecretRef != nil && !lists(account, e.SecretRef.Name) {
			return fmt.Errorf("%s %s with envFrom referencing secret.secretName=%q is not allowed because service account %s does not reference that secret", kind, c.Name, e.SecretRef.Name, account.Name)
		}
	}
	return nil
}

func lists(account *corev1.ServiceAccount, secret string) bool {
	for _, s := range account.Secrets {
		if s.Name == secret {
			return true
		}
	}
	return false
}
