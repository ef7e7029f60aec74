/*
 * usermapping.c
 *	  CREATE and ALTER USER MAPPING: passwords for other servers travel encrypted.
 *
 * A role's password travels as its verifier; that of a user mapping is needed itself.  It is in the catalog
 * of each node, but the command is also in the journal, in the replicator's memory, and in what is
 * shown and logged of both, which would be more places to protect.  So the command is written out
 * with each option but "user" encrypted, name and value, and whoever applies it puts them back:
 *
 *	 OPTIONS ("user" 'joe', "lockstep encrypted" 'hexadecimal digits')
 *
 * AES-256-GCM with a random nonce, by a key that is derived from the cluster's secret, which each node
 * reads from its file.  When the secret is changed, the one before opens what a node that was away finds in
 * the journal (secret_read_old()).
 *
 * A wrapper with a validator refuses that name where lockstep is of an earlier version.
 */
#include "postgres.h"

#include <openssl/evp.h>

#include "common/hmac.h"
#include "common/sha2.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "utils/acl.h"
#include "utils/builtins.h"

#include "ddl.h"
#include "secret.h"

#define ENCRYPTED "lockstep encrypted"
#define KEY_SIZE PG_SHA256_DIGEST_LENGTH
#define NONCE_SIZE 12
#define TAG_SIZE 16

/* ---------- encryption */

static void
report_trouble(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_INTERNAL_ERROR),
			 errmsg("could not encrypt or decrypt an option of a user mapping")));
}

static void
derive_key(Secret *secret, uint8 *key)
{
	static const char purpose[] = "lockstep: options of user mappings";
	pg_hmac_ctx *ctx = pg_hmac_create(PG_SHA256);
	bool		ok = ctx != NULL &&
	pg_hmac_init(ctx, secret->bytes, secret->len) >= 0 &&
	pg_hmac_update(ctx, (const uint8 *) purpose, strlen(purpose)) >= 0 &&
	pg_hmac_final(ctx, key, KEY_SIZE) >= 0;

	pg_hmac_free(ctx);
	explicit_bzero(secret, sizeof(*secret));
	if (!ok)
		report_trouble();
}

/* encrypted: nonce, text of that length, tag; palloc'ed. */
static uint8 *
encrypt(const char *text, int len)
{
	uint8	   *encrypted = palloc(NONCE_SIZE + len + TAG_SIZE);
	EVP_CIPHER_CTX *ctx;
	Secret		secret;
	uint8		key[KEY_SIZE];
	int			n;
	bool		ok;

	secret_read(&secret);
	derive_key(&secret, key);
	if (!pg_strong_random(encrypted, NONCE_SIZE))
		report_trouble();
	ctx = EVP_CIPHER_CTX_new();
	ok = ctx != NULL &&
		EVP_EncryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, key, encrypted) == 1 &&
		EVP_EncryptUpdate(ctx, encrypted + NONCE_SIZE, &n, (const uint8 *) text, len) == 1 && n == len &&
		EVP_EncryptFinal_ex(ctx, encrypted + NONCE_SIZE + len, &n) == 1 && n == 0 &&
		EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, TAG_SIZE, encrypted + NONCE_SIZE + len) == 1;
	EVP_CIPHER_CTX_free(ctx);
	explicit_bzero(key, sizeof(key));
	if (!ok)
		report_trouble();
	return encrypted;
}

/* false: not by this key.  text: len bytes. */
static bool
decrypt(const uint8 *key, const uint8 *encrypted, int len, uint8 *text)
{
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	int			n;
	bool		ok;

	ok = ctx != NULL &&
		EVP_DecryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, key, encrypted) == 1 &&
		EVP_DecryptUpdate(ctx, text, &n, encrypted + NONCE_SIZE, len) == 1 && n == len &&
		EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, TAG_SIZE, (void *) (encrypted + NONCE_SIZE + len)) == 1 &&
		EVP_DecryptFinal_ex(ctx, text + len, &n) == 1;
	EVP_CIPHER_CTX_free(ctx);
	return ok;
}

/* ---------- an option */

/* Its name, a zero byte, its value: as hexadecimal digits. */
static char *
encrypted_option(const DefElem *option)
{
	StringInfoData text;
	int			size;
	uint8	   *encrypted;
	char	   *digits;

	initStringInfo(&text);
	appendBinaryStringInfo(&text, option->defname, (int) strlen(option->defname) + 1);
	appendStringInfoString(&text, strVal(option->arg));
	encrypted = encrypt(text.data, text.len);
	size = NONCE_SIZE + text.len + TAG_SIZE;
	digits = palloc0(2 * size + 1);
	(void) hex_encode((const char *) encrypted, size, digits);
	return digits;
}

/* In place. */
static void
decrypt_option(DefElem *option)
{
	const char *digits = option->arg != NULL ? strVal(option->arg) : "";
	uint8	   *encrypted = palloc(strlen(digits) / 2 + 1);
	int			len = (int) hex_decode(digits, strlen(digits), (char *) encrypted) - NONCE_SIZE - TAG_SIZE;
	char	   *text = palloc0(Max(len, 0) + 1);
	Secret		secret;
	uint8		key[KEY_SIZE];
	bool		ok;

	secret_read(&secret);
	derive_key(&secret, key);
	ok = len > 0 && decrypt(key, encrypted, len, (uint8 *) text);
	if (!ok && len > 0 && secret_read_old(&secret))
	{
		derive_key(&secret, key);
		ok = decrypt(key, encrypted, len, (uint8 *) text);
	}
	explicit_bzero(key, sizeof(key));
	if (!ok || (int) strlen(text) >= len)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("an option of a user mapping cannot be decrypted by this node's secret"),
				 errdetail("The cluster's secret has been changed since. Put the old one beside lockstep.secret_file, under the same name with \".old\".")));
	option->defname = text;
	option->arg = (Node *) makeString(text + strlen(text) + 1);
}

/* ---------- the command */

static const char *
role_text(const RoleSpec *role)
{
	switch (role->roletype)
	{
		case ROLESPEC_CSTRING:
			return quote_identifier(role->rolename);
		case ROLESPEC_CURRENT_USER:
			return "CURRENT_USER";
		case ROLESPEC_SESSION_USER: /* another one where it is applied */
			return quote_identifier(GetUserNameFromId(GetSessionUserId(), false));
		case ROLESPEC_PUBLIC:
			return "PUBLIC";
		default:
			return "CURRENT_ROLE";
	}
}

static const char *
action_text(const DefElem *option)
{
	return option->defaction == DEFELEM_ADD ? "ADD " :
		option->defaction == DEFELEM_SET ? "SET " : option->defaction == DEFELEM_DROP ? "DROP " : "";
}

static void
append_options(StringInfo text, const List *options)
{
	const char *separator = " OPTIONS (";
	ListCell   *lc;

	foreach(lc, options)
	{
		DefElem    *option = lfirst_node(DefElem, lc);

		appendStringInfo(text, "%s%s", separator, action_text(option));
		separator = ", ";
		if (option->arg == NULL)
			appendStringInfoString(text, quote_identifier(option->defname));
		else if (strcmp(option->defname, "user") == 0)
			appendStringInfo(text, "\"user\" %s", quote_literal_cstr(strVal(option->arg)));
		else
			appendStringInfo(text, "\"%s\" '%s'", ENCRYPTED, encrypted_option(option));
	}
	if (options != NIL)
		appendStringInfoChar(text, ')');
}

char *
usermapping_create_text(const CreateUserMappingStmt *stmt)
{
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfo(&text, "CREATE USER MAPPING %sFOR %s SERVER %s", stmt->if_not_exists ? "IF NOT EXISTS " : "",
					 role_text(stmt->user), quote_identifier(stmt->servername));
	append_options(&text, stmt->options);
	return text.data;
}

char *
usermapping_alter_text(const AlterUserMappingStmt *stmt)
{
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfo(&text, "ALTER USER MAPPING FOR %s SERVER %s", role_text(stmt->user), quote_identifier(stmt->servername));
	append_options(&text, stmt->options);
	return text.data;
}

static bool
is_encrypted(const DefElem *option)
{
	return strcmp(option->defname, ENCRYPTED) == 0;
}

static List *
options_of(Node *stmt)
{
	return IsA(stmt, CreateUserMappingStmt) ? ((CreateUserMappingStmt *) stmt)->options :
		IsA(stmt, AlterUserMappingStmt) ? ((AlterUserMappingStmt *) stmt)->options : NIL;
}

PlannedStmt *
usermapping_decrypted(PlannedStmt *pstmt)
{
	List	   *options = options_of(pstmt->utilityStmt);
	bool		found = false;
	ListCell   *lc;

	foreach(lc, options)
		found |= is_encrypted(lfirst_node(DefElem, lc));
	if (likely(!found))
		return pstmt;
	pstmt = copyObject(pstmt);
	options = options_of(pstmt->utilityStmt);
	foreach(lc, options)
	{
		if (is_encrypted(lfirst_node(DefElem, lc)))
			decrypt_option(lfirst_node(DefElem, lc));
	}
	return pstmt;
}
