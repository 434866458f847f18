package token_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/token"
)

func TestCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := map[string]int{}
		v := token.Func(func(ctx context.Context, text string) (*authn.Identity, error) {
			asked[text]++
			switch text {
			case "good":
				audiences, _ := authn.Audiences(ctx)
				return &authn.Identity{Name: "ann", Audiences: audiences}, nil
			case "silence":
				return nil, nil
			case "late":
				return nil, fmt.Errorf("asking: %w", context.DeadlineExceeded)
			}
			return nil, authn.ErrNoCredentials
		})
		c := token.Cache(v, token.CacheOptions{Valid: 10 * time.Second, Unknown: time.Second})
		verify := func(ctx context.Context, text string, want int) {
			t.Helper()
			id, err := c.Verify(ctx, text)
			if asked[text] != want || (text == "good") != (err == nil) || (err == nil) != (id != nil) {
				t.Errorf("%s: %+v, %v after %d questions, want %d", text, id, err, asked[text], want)
			}
		}
		for range 2 {
			verify(t.Context(), "good", 1)
			verify(t.Context(), "bad", 1)
		}
		verify(authn.WithAudiences(t.Context(), []string{"a", "b"}), "good", 2)
		verify(authn.WithAudiences(t.Context(), []string{"b", "a"}), "good", 2)
		verify(authn.WithAudiences(t.Context(), []string{"a"}), "good", 3)
		verify(authn.WithAudiences(t.Context(), nil), "good", 4)
		verify(t.Context(), "late", 1)
		verify(t.Context(), "late", 2)
		time.Sleep(time.Second)
		verify(t.Context(), "good", 4)
		verify(t.Context(), "bad", 2)
		time.Sleep(9 * time.Second)
		verify(t.Context(), "good", 5)
		// No identity counts as unknown even if there is no error.
		ask := func(want int) {
			t.Helper()
			if id, err := c.Verify(t.Context(), "silence"); id != nil || err != nil || asked["silence"] != want {
				t.Errorf("%+v, %v after %d questions, want %d", id, err, asked["silence"], want)
			}
		}
		ask(1)
		time.Sleep(time.Second)
		ask(2)
		// What was not used for long makes room.
		for n := range 10_000 {
			if _, err := c.Verify(t.Context(), fmt.Sprint("guess-", n)); !errors.Is(err, authn.ErrNoCredentials) {
				t.Fatal(err)
			}
		}
		verify(t.Context(), "good", 6)
		none := token.Cache(v, token.CacheOptions{})
		for want := range 2 {
			if _, err := none.Verify(t.Context(), "good"); err != nil || asked["good"] != 7+want {
				t.Errorf("%v after %d questions", err, asked["good"])
			}
		}
	})
}
