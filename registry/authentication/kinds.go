package authentication

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/registry"
)

// Options are the options of Kinds; the zero value is valid.
type Options struct {
	// Audiences are those of this server: the audiences of tokens that name none.
	Audiences []string
}

// Kinds returns the kinds of the group in discovery order. For a TokenReview, auth authenticates a request that
// carries the token and asks for the review's audiences (authn.WithAudiences); if auth is nil, nobody is
// authenticated.
func Kinds(auth authn.Authenticator, o Options) []registry.Kind {
	return []registry.Kind{selfSubjectReviews(), tokenReviews(auth, o)}
}

func selfSubjectReviews() registry.Kind {
	return registry.Review[*authenticationv1.SelfSubjectReview]{
		Names:        registry.Names{Kind: "SelfSubjectReview", Plural: "selfsubjectreviews", Singular: "selfsubjectreview"},
		GroupVersion: authenticationv1.SchemeGroupVersion,
		New:          func() *authenticationv1.SelfSubjectReview { return &authenticationv1.SelfSubjectReview{} },
		Answer: func(ctx context.Context, _ registry.Access, _ string, asked *authenticationv1.SelfSubjectReview) (runtime.Object, error) {
			id := authn.FromContext(ctx)
			if id == nil {
				return nil, badRequest("selfsubjectreviews", "no user present on request")
			}
			return &authenticationv1.SelfSubjectReview{
				TypeMeta:   asked.TypeMeta,
				ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(time.Now())},
				Status:     authenticationv1.SelfSubjectReviewStatus{UserInfo: userInfo(id)},
			}, nil
		},
	}.Kind()
}

func tokenReviews(auth authn.Authenticator, o Options) registry.Kind {
	return registry.Review[*authenticationv1.TokenReview]{
		Names:        registry.Names{Kind: "TokenReview", Plural: "tokenreviews", Singular: "tokenreview"},
		GroupVersion: authenticationv1.SchemeGroupVersion,
		New:          func() *authenticationv1.TokenReview { return &authenticationv1.TokenReview{} },
		Answer: func(_ context.Context, _ registry.Access, _ string, review *authenticationv1.TokenReview) (runtime.Object, error) {
			if review.Spec.Token == "" {
				return nil, badRequest("tokenreviews", "token is required for TokenReview in authentication")
			}
			if auth != nil {
				review.Status = reviewToken(auth, o.Audiences, review)
			}
			return review, nil
		},
	}.Kind()
}

// errInvalidToken is the error of a review of an unknown token.
const errInvalidToken = "invalid bearer token"

// reviewToken authenticates a request that carries the token and nothing else, not even the context of the
// review: its caller would be taken for the token's owner.
func reviewToken(auth authn.Authenticator, audiences []string, review *authenticationv1.TokenReview) authenticationv1.TokenReviewStatus {
	asked := review.Spec.Audiences
	if len(asked) == 0 {
		asked = audiences
	}
	r := &http.Request{Header: http.Header{"Authorization": {"Bearer " + review.Spec.Token}}}
	if len(asked) > 0 {
		r = r.WithContext(authn.WithAudiences(context.Background(), asked))
	}
	id, err := auth.Authenticate(r)
	switch {
	case errors.Is(err, authn.ErrNoCredentials) || err == nil && id.Name == authn.Anonymous:
		return authenticationv1.TokenReviewStatus{Error: errInvalidToken}
	case err != nil:
		return authenticationv1.TokenReviewStatus{Error: err.Error()}
	}
	meant := id.Audiences
	if len(meant) == 0 {
		// Credentials that name no audience are meant for this server.
		meant = slices.DeleteFunc(slices.Clone(asked), func(a string) bool { return !slices.Contains(audiences, a) })
		if len(meant) == 0 && len(asked) > 0 {
			return authenticationv1.TokenReviewStatus{Error: errInvalidToken}
		}
	}
	return authenticationv1.TokenReviewStatus{Authenticated: true, User: userInfo(id), Audiences: meant}
}

func userInfo(id *authn.Identity) authenticationv1.UserInfo {
	info := authenticationv1.UserInfo{Username: id.Name, UID: id.UID, Groups: slices.Clone(id.Groups)}
	if len(id.Extra) > 0 {
		info.Extra = make(map[string]authenticationv1.ExtraValue, len(id.Extra))
	}
	for key, values := range id.Extra {
		info.Extra[key] = slices.Clone(values)
	}
	return info
}

func badRequest(resource, message string) error {
	return &registry.Error{
		Err:      registry.ErrBadRequest,
		Resource: schema.GroupResource{Group: authenticationv1.GroupName, Resource: resource},
		Message:  message,
	}
}
