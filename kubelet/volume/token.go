package volume

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
)

// maxTokenAge is the age at which a token is replaced although it is valid for longer.
const maxTokenAge = 24 * time.Hour

// tokenRetry is how soon to request a token again after a failure, while the old one is still valid.
const tokenRetry = 30 * time.Second

// defaultTokenLife is the default lifetime of a token in seconds.
const defaultTokenLife int64 = 3600

// tokenKey identifies a token of a pod by its volume and source.
type tokenKey struct {
	volume string
	source int
}

// token is a token with the times at which to request the next one and at which it expires.
type token struct {
	value            string
	refresh, expires time.Time
}

// addToken adds a token of the pod's service account: the current one while it is fresh. If no new one can be obtained,
// the old one is used as long as it is valid.
func (c *collector) addToken(ctx context.Context, key tokenKey, s *corev1.ServiceAccountTokenProjection) error {
	t, ok := c.state.tokens[key]
	if !ok || !time.Now().Before(t.refresh) {
		fresh, err := c.v.requestToken(ctx, c.pod, s)
		switch {
		case err == nil:
			t = fresh
			c.state.tokens[key] = t
		case !ok:
			return fmt.Errorf("failed to fetch token: %w", err)
		case !time.Now().Before(t.expires):
			return fmt.Errorf("token of service account %s/%s expired and refresh failed: %w", c.pod.Namespace, c.pod.Spec.ServiceAccountName, err)
		default:
			c.v.log.Warn("refreshing a token failed; the old one stays in use", "pod", c.pod.Namespace+"/"+c.pod.Name, "error", err)
			t.refresh = time.Now().Add(min(tokenRetry, time.Until(t.expires)))
			c.state.tokens[key] = t
		}
	}
	c.addPrivate(s.Path, []byte(t.value))
	return nil
}

var errNoTokens = errors.New("there is no source of service account tokens")

func (v *Volumes) requestToken(ctx context.Context, pod *corev1.Pod, s *corev1.ServiceAccountTokenProjection) (token, error) {
	if v.in.Tokens == nil {
		return token{}, errNoTokens
	}
	life := defaultTokenLife
	if s.ExpirationSeconds != nil {
		life = *s.ExpirationSeconds
	}
	request := authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &life,
		BoundObjectRef: &authenticationv1.BoundObjectReference{
			APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
		},
	}
	if s.Audience != "" {
		request.Audiences = []string{s.Audience}
	}
	status, err := v.in.Tokens.Token(ctx, pod.Namespace, pod.Spec.ServiceAccountName, request)
	if err != nil {
		return token{}, err
	}
	return newToken(status), nil
}

// newToken schedules a token's replacement: after 80 % of its actual lifetime, or after a day if that is sooner.
func newToken(status authenticationv1.TokenRequestStatus) token {
	expires := status.ExpirationTimestamp.Time
	return token{value: status.Token, expires: expires, refresh: time.Now().Add(min(time.Until(expires)*8/10, maxTokenAge))}
}

// TokensOf returns Tokens that request them from an API server.
func TokensOf(c client.Creator) Tokens { return serverTokens{c} }

type serverTokens struct{ client client.Creator }

func (s serverTokens) Token(ctx context.Context, namespace, account string, request authenticationv1.TokenRequestSpec) (authenticationv1.TokenRequestStatus, error) {
	target := client.Target{
		Resource: corev1.SchemeGroupVersion.WithResource("serviceaccounts"), Namespace: namespace, Name: account, Subresource: "token",
	}
	answer, err := client.As[*authenticationv1.TokenRequest](
		s.client.Create(ctx, target, &authenticationv1.TokenRequest{Spec: request}, metav1.CreateOptions{}))
	if err != nil {
		return authenticationv1.TokenRequestStatus{}, err
	}
	return answer.Status, nil
}
