package attacks

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"hash"
	"maps"
	"os"
	"path/filepath"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// claims of a token, or its header.
type claims map[string]any

func encode(c claims) string {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // strings, numbers and lists encode
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func decode(part string) (c claims) {
	text, err := base64.RawURLEncoding.DecodeString(part)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		panic(err) // the server's own tokens decode
	}
	return c
}

// with returns claims, of which some are others.
func with(c claims, other claims) claims {
	c = maps.Clone(c)
	maps.Copy(c, other)
	return c
}

// tokens forges tokens of service accounts, and uses those that are no longer valid.
func (w *world) tokens() {
	const about = "/api/v1/namespaces/pub/pods/mine"
	valid := w.accountToken("mine", authenticationv1.TokenRequestSpec{})
	self := "/apis/authentication.k8s.io/v1/selfsubjectreviews"
	review := `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`
	who := w.works("a token", identity{token: valid}, request(identity{token: valid}, "POST", self, review, "Content-Type: application/json"))
	if !strings.Contains(who.body, "system:serviceaccount:pub:mine") {
		w.t.Fatalf("it is not its owner's: %s", who.body)
	}
	for name, token := range w.forgeries(valid) {
		if got := w.harmless(name, identity{}, request(identity{token: token}, "GET", about, "")); got.status != 401 && got.status != 400 && got.status != 431 {
			w.t.Errorf("%s is accepted: %d %.200q", name, got.status, got.body)
		}
	}
	w.unauthenticated("another audience", w.accountToken("mine", authenticationv1.TokenRequestSpec{Audiences: []string{"vault"}}))
	w.goneOwners()
}

func (w *world) unauthenticated(what, token string) {
	w.t.Helper()
	if got := w.harmless(what, identity{}, request(identity{token: token}, "GET", "/version", "")); got.status != 401 {
		w.t.Errorf("%s is accepted: %d %.200q", what, got.status, got.body)
	}
}

// goneOwners uses tokens whose account or pod is gone, or has been made again.
func (w *world) goneOwners() {
	ctx := w.t.Context()
	for _, again := range []bool{false, true} {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "leaver"}}
		_, err := w.admin.CoreV1().ServiceAccounts("pub").Create(ctx, account, metav1.CreateOptions{})
		w.check(err)
		token := w.accountToken("leaver", authenticationv1.TokenRequestSpec{})
		w.works("a token of an account that is there", identity{token: token}, request(identity{token: token}, "GET", "/version", ""))
		w.check(w.admin.CoreV1().ServiceAccounts("pub").Delete(ctx, "leaver", metav1.DeleteOptions{}))
		if again {
			_, err := w.admin.CoreV1().ServiceAccounts("pub").Create(ctx, account, metav1.CreateOptions{})
			w.check(err)
		}
		w.eventually("the token of an account that is gone is refused", func() bool {
			return w.send(identity{}, request(identity{token: token}, "GET", "/version", "")).status == 401
		})
		w.unauthenticated(fmt.Sprintf("the token of an account that is gone (again: %v)", again), token)
		if again {
			w.check(w.admin.CoreV1().ServiceAccounts("pub").Delete(ctx, "leaver", metav1.DeleteOptions{}))
		}
	}
	pod, err := w.admin.CoreV1().Pods("pub").Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "leaver"},
		Spec:       corev1.PodSpec{NodeName: "node-0", ServiceAccountName: "mine", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	w.check(err)
	token := w.accountToken("mine", authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "leaver", UID: pod.UID}})
	w.works("a token of a pod that is there", identity{token: token}, request(identity{token: token}, "GET", "/version", ""))
	none := int64(0)
	w.check(w.admin.CoreV1().Pods("pub").Delete(ctx, "leaver", metav1.DeleteOptions{GracePeriodSeconds: &none}))
	w.eventually("the token of a pod that is gone is refused", func() bool {
		return w.send(identity{}, request(identity{token: token}, "GET", "/version", "")).status == 401
	})
	w.unauthenticated("the token of a pod that is gone", token)
}

// forgeries are tokens that nobody should accept, made from a valid one.
func (w *world) forgeries(valid string) map[string]string {
	parts := strings.Split(valid, ".")
	header, payload := decode(parts[0]), decode(parts[1])
	all := map[string]string{}
	// Without a signature, or with that of another algorithm.
	for _, alg := range []string{"none", "None", "NONE", "nOnE", "", " none", "HS256", "RS256", "ES256", "EdDSA"} {
		for name, signature := range map[string]string{"no": "", "the same": parts[2], "an empty": base64.RawURLEncoding.EncodeToString(make([]byte, 64))} {
			if alg == header["alg"] && name == "the same" {
				continue
			}
			all[fmt.Sprintf("algorithm %q with %s signature", alg, name)] = encode(with(header, claims{"alg": alg})) + "." + parts[1] + "." + signature
		}
	}
	w.publicKeys(all, header, parts[1])
	w.otherKeys(all, header, payload)
	// Other claims under the same signature.
	for name, c := range map[string]claims{
		"subject": {"sub": "system:serviceaccount:kube-system:default"}, "issuer": {"iss": "https://elsewhere"}, "audience": {"aud": []string{"vault"}}, "no audience": {"aud": nil},
		"expiry": {"exp": 1 << 40}, "no expiry": {"exp": nil}, "expired": {"exp": 1}, "not yet": {"nbf": 1 << 40}, "groups": {"groups": []string{"system:masters"}},
		"namespace": {"kubernetes.io": claims{"namespace": "vault", "serviceaccount": claims{"name": "default", "uid": "x"}}},
	} {
		all["another "+name] = parts[0] + "." + encode(with(payload, c)) + "." + parts[2]
	}
	for name, c := range map[string]claims{"type": {"typ": "at+jwt"}, "critical": {"crit": []string{"exp"}, "exp": 1}, "zip": {"zip": "DEF"}, "content": {"cty": "JWT"}} {
		all["another header: "+name] = encode(with(header, c)) + "." + parts[1] + "." + parts[2]
	}
	// Other spellings. Base64 leaves bits of the last character free.
	flipped := parts[2][:10] + string(rune('A'+(parts[2][10]-'A'+1)%26)) + parts[2][11:]
	for name, token := range map[string]string{
		"changed signature": parts[0] + "." + parts[1] + "." + flipped, "half a signature": parts[0] + "." + parts[1] + "." + parts[2][:40],
		"two parts": parts[0] + "." + parts[1], "four parts": valid + "." + parts[2], "five parts": valid + ".." + parts[2], "a dot": ".", "two dots": "..", "nothing decodes": "a.b.c",
		"padded": parts[0] + "==." + parts[1] + "." + parts[2], "twice": valid + valid, "swapped": parts[1] + "." + parts[0] + "." + parts[2], "long": strings.Repeat("A", 100_000) + "." + parts[1] + "." + parts[2],
		"deep": base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("[", 10_000))) + "." + parts[1] + "." + parts[2], "comma": valid + ",", "quoted": `"` + valid + `"`, "static, longer": "token-of-readerx",
		"static, shorter": "token-of-reade", "static, other case": "TOKEN-OF-READER", "a user's name": "admin", "group": "system:masters",
	} {
		all[name] = token
	}
	return all
}

// publicKeys adds tokens whose HMAC has the server's public key as its secret.
func (w *world) publicKeys(all map[string]string, header claims, payload string) {
	text, err := os.ReadFile(filepath.Join(w.dir, "data", "pki", "sa.pub"))
	w.check(err)
	block, _ := pem.Decode(text)
	if block == nil {
		w.t.Fatal("sa.pub is not PEM")
	}
	for alg, h := range map[string]func() hash.Hash{"HS256": sha256.New, "HS384": sha512.New384, "HS512": sha512.New} {
		for form, key := range map[string][]byte{"PEM": text, "trimmed PEM": []byte(strings.TrimSpace(string(text))), "DER": block.Bytes, "nothing": nil} {
			signed := encode(with(header, claims{"alg": alg})) + "." + payload
			mac := hmac.New(h, key)
			_, _ = mac.Write([]byte(signed))
			all[alg+" with the public key as "+form] = signed + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
		}
	}
}

// otherKeys adds tokens that are signed by keys of the attacker's, which the header brings or points to.
func (w *world) otherKeys(all map[string]string, header, payload claims) {
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.check(err)
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	w.check(err)
	point, err := own.PublicKey.Bytes()
	w.check(err)
	jwk := claims{"kty": "EC", "crv": "P-256", "x": base64.RawURLEncoding.EncodeToString(point[1:33]), "y": base64.RawURLEncoding.EncodeToString(point[33:])}
	for name, c := range map[string]claims{
		"the same kid": {}, "no kid": {"kid": nil}, "an empty kid": {"kid": ""}, "kid of a file": {"kid": "../../../../dev/null"}, "kid of a query": {"kid": "x' UNION SELECT 'k"}, "kid of a number": {"kid": 1}, "jwk": {"jwk": jwk},
		"jku": {"jku": "https://127.0.0.1:1/jwks"}, "x5u": {"x5u": "https://127.0.0.1:1/x5u"}, "x5c": {"x5c": []string{"AAAA"}}, "jwk and no kid": {"jwk": jwk, "kid": nil},
	} {
		signed := encode(with(header, with(claims{"alg": "ES256"}, c))) + "." + encode(payload)
		sum := sha256.Sum256([]byte(signed))
		r, s, err := ecdsa.Sign(rand.Reader, own, sum[:])
		w.check(err)
		all["ES256 by another key: "+name] = signed + "." + base64.RawURLEncoding.EncodeToString(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))

		signed = encode(with(header, with(claims{"alg": "RS256"}, c))) + "." + encode(payload)
		sum = sha256.Sum256([]byte(signed))
		signature, err := rsa.SignPKCS1v15(rand.Reader, other, crypto.SHA256, sum[:])
		w.check(err)
		all["RS256 by another key: "+name] = signed + "." + base64.RawURLEncoding.EncodeToString(signature)
	}
}
